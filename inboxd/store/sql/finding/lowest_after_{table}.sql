-- An id above which no row was settled before a moment, as low as can be found quickly: a binary search by id, which reads
-- at each probe the first settled row from the middle on; at first the probes go up in growing steps.
-- parameters: $1 timestamptz the moment, $2 and $3 timestamptz the days in which it may have been settled (from, to),
--             $4 bigint the id that stands for "none", $5 integer the wanted accuracy in ids
-- returns: one row: id, probes (how many rows were looked at); or nothing: none was settled in these days
-- locks: nothing
WITH RECURSIVE search AS (
    (SELECT h.id AS low, $4::bigint AS high, $5::bigint AS step, $4::bigint AS found, 1 AS probes
       FROM {schema}.{table}_history h
      WHERE h.id >= 0 AND h.finished_at >= $2::timestamptz AND h.finished_at < $3::timestamptz ORDER BY h.id LIMIT 1)
    UNION ALL
    SELECT CASE WHEN r.above THEN s.low ELSE r.id END, CASE WHEN r.above THEN s.middle ELSE s.high END,
           CASE WHEN r.above THEN s.step ELSE s.step * 8 END,
           CASE WHEN r.id < s.high AND r.above THEN r.id ELSE s.found END, s.probes + 1
      FROM (SELECT search.*, CASE WHEN high = $4::bigint THEN low + step ELSE (low + high) / 2 END AS middle
              FROM search WHERE high - low > $5::bigint) s
     CROSS JOIN LATERAL (
         SELECT max(first.id) AS id,
                max(first.id) IS NULL OR max(first.id) >= s.high OR max(first.created_at) >= $1::timestamptz AS above
           FROM (SELECT h.id, h.created_at FROM {schema}.{table}_history h
                  WHERE h.id >= s.middle AND h.finished_at >= $2::timestamptz AND h.finished_at < $3::timestamptz
                  ORDER BY h.id LIMIT 1) first) r
)
SELECT found AS id, probes FROM search ORDER BY probes DESC LIMIT 1
