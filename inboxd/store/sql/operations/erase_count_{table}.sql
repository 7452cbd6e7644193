-- The number of settled rows in a stretch of one partition that are about a subject.
-- parameters: null for any: $1 text tenant, $2 text entity_type, $3 text entity_id; $4 and $5 timestamptz the
--             partition's bounds, $6 and $7 tid from (included) and to (not)
-- returns: rows, bodies
-- locks: nothing
SELECT count(*) AS rows, count(h.body_id) AS bodies
  FROM {schema}.{table}_history h
 WHERE h.finished_at >= $4 AND h.finished_at < $5 AND h.ctid >= $6 AND h.ctid < $7
   AND ($1::text IS NULL OR h.tenant = $1) AND ($2::text IS NULL OR h.entity_type = $2)
   AND ($3::text IS NULL OR h.entity_id = $3)
