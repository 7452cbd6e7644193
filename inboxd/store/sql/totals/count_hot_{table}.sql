-- Count unsettled rows, up to a bound.
-- parameters: $1 text type, $2 text tenant (null: any); $3 integer rows looked at
-- returns: looked (how many rows were looked at; fewer than the bound: all), pending, processing, failed (of those that match)
-- locks: nothing
SELECT count(*) AS looked,
       count(*) FILTER (WHERE d.matches AND d.status IN ('pending', 'waiting')) AS pending,
       count(*) FILTER (WHERE d.matches AND d.status = 'running') AS processing,
       count(*) FILTER (WHERE d.matches AND d.status = 'failed') AS failed
  FROM (SELECT h.status,
               ($1::text IS NULL OR h.type = $1) AND ($2::text IS NULL OR h.tenant IS NOT DISTINCT FROM $2) AS matches
          FROM {schema}.{table} h ORDER BY h.id LIMIT $3) d
