-- Give rows that have just arrived, and cannot be processed now, their positions at the ends of their lines,
-- in the order of ids. If a line was empty, the first one is its head.
-- parameters: $1 bigint[] ids, which must be smaller than those of the line's other arrivals
-- returns: nothing (the command tag counts the rows)
-- locks: the rows; the caller has their buckets
WITH met AS MATERIALIZED (
    SELECT e.id, e.topic, e.ordering_key,
           row_number() OVER (PARTITION BY e.topic, e.ordering_key ORDER BY e.id) AS n
      FROM {schema}.events e
     WHERE e.id = ANY ($1::bigint[]) AND e.position IS NULL AND e.mode <> 'single'
)
UPDATE {schema}.events e
   SET position = coalesce(line.position, 0) + met.n, head = line.position IS NULL AND met.n = 1
  FROM met
  LEFT JOIN LATERAL (
     SELECT l.position FROM {schema}.events l
      WHERE l.position IS NOT NULL AND l.topic = met.topic AND l.ordering_key = met.ordering_key
      ORDER BY l.position DESC LIMIT 1) line ON true
 WHERE e.id BETWEEN met.id AND met.id
