-- How the dead letters of a group spread over tenants, hosts and releases, by their last attempts: the newest of each type,
-- and the first of the group; and how many of the newest died in each hour of the last day.
-- parameters: $1 text fingerprint, $2 text[] its types, $3 integer newest rows of each type to look at, $4 integer
--             first rows to look at, $5 integer names of each kind to return
-- returns: part (newest, first), what (tenant, host, release, rows; hour), name (null: none; of an hour: how many hours
--          ago it began; the running one is 0, as are times in the future, from clocks that were set back), count
-- locks: nothing
WITH looked AS MATERIALIZED (
    SELECT 'newest' AS part, n.*
      FROM unnest($2::text[]) AS of(type)
     CROSS JOIN LATERAL (
         SELECT h.id, h.tenant, h.updated_at, {content jsonb: h.errors -> -1} AS error FROM {schema}.{table} h
          WHERE h.status || '' = 'failed' AND h.fingerprint = $1
            AND (h.type, h.id) >= (of.type, 0::bigint) AND (h.type, h.id) <= (of.type, 9223372036854775807)
          ORDER BY h.type DESC, h.id DESC LIMIT $3::integer) n
    UNION ALL
    SELECT 'first', f.*
      FROM (SELECT n.*
              FROM unnest($2::text[]) AS of(type)
             CROSS JOIN LATERAL (
                 SELECT h.id, h.tenant, h.updated_at, {content jsonb: h.errors -> -1} AS error FROM {schema}.{table} h
                  WHERE h.status || '' = 'failed' AND h.fingerprint = $1
                    AND (h.type, h.id) >= (of.type, 0::bigint) AND (h.type, h.id) <= (of.type, 9223372036854775807)
                  ORDER BY h.type, h.id LIMIT $4::integer) n
             ORDER BY n.id LIMIT $4::integer) f
)
SELECT part, what, name, count
  FROM (SELECT l.part, named.what, named.name, count(*) AS count,
               row_number() OVER (PARTITION BY l.part, named.what ORDER BY count(*) DESC, named.name) AS place
          FROM looked l
         CROSS JOIN LATERAL (VALUES ('tenant', l.tenant), ('release', l.error ->> 'release'), ('rows', NULL),
                                    ('host', regexp_replace(l.error ->> 'process', ':[0-9]+$', ''))) AS named(what, name)
         GROUP BY l.part, named.what, named.name) counted
 WHERE place <= $5::integer
UNION ALL
SELECT part, 'hour',
       greatest((extract(epoch FROM date_trunc('hour', now()) - date_trunc('hour', updated_at)) / 3600)::integer, 0)::text,
       count(*)
  FROM looked WHERE part = 'newest' AND updated_at >= date_trunc('hour', now()) - interval '23 hours'
 GROUP BY 1, 3
