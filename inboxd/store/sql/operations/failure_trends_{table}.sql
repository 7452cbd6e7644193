-- The newest dead letters of failure groups, counted by the hour in which they became dead letters.
-- parameters: $1 text[] fingerprints, $2 text[] types, one for each fingerprint, $3 integer newest rows of each to look at
-- returns: fingerprint, hour (0: the current hour, or the future, after a clock was set back; 1: the hour before it, and
--          so on; null: older than these 24 hours), count
-- locks: nothing
SELECT fingerprint, hour, count(*) AS count
  FROM (SELECT of.fingerprint,
               CASE WHEN n.updated_at >= date_trunc('hour', now()) - interval '23 hours'
                    THEN greatest((extract(epoch FROM date_trunc('hour', now()) - date_trunc('hour', n.updated_at)) / 3600)::integer, 0)
               END AS hour
          FROM unnest($1::text[], $2::text[]) AS of(fingerprint, type)
         CROSS JOIN LATERAL (
             SELECT h.updated_at FROM {schema}.{table} h
              WHERE h.status || '' = 'failed' AND h.fingerprint = of.fingerprint
                AND (h.type, h.id) >= (of.type, 0::bigint) AND (h.type, h.id) <= (of.type, 9223372036854775807)
              ORDER BY h.type DESC, h.id DESC LIMIT $3::integer) n) looked
 GROUP BY fingerprint, hour
