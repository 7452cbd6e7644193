-- Count a day of history, up to a bound.
-- parameters: $1 and $2 timestamptz the partition's bounds; $3 text type, $4 text tenant (null: any); $5 integer rows looked at
-- returns: looked (how many rows were looked at; fewer than the bound: all), succeeded, failed, cancelled, dismissed (of those
--          that match)
-- locks: nothing
SELECT count(*) AS looked,
       count(*) FILTER (WHERE d.matches AND d.status = 'succeeded') AS succeeded,
       count(*) FILTER (WHERE d.matches AND d.status = 'failed') AS failed,
       count(*) FILTER (WHERE d.matches AND d.status = 'cancelled') AS cancelled,
       count(*) FILTER (WHERE d.matches AND d.status = 'dismissed') AS dismissed
  FROM (SELECT h.status,
               ($3::text IS NULL OR h.type = $3) AND ($4::text IS NULL OR h.tenant IS NOT DISTINCT FROM $4) AS matches
          FROM {schema}.{table}_history h
         WHERE h.finished_at >= $1 AND h.finished_at < $2 ORDER BY h.id LIMIT $5) d
