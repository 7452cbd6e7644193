-- The oldest events of lines, in order, line by line.
-- parameters: $1 text topic, arrays, one entry a line: $2 text[] ordering keys, $3 bigint[] positions of their
--             heads, $4 integer[] how many of each
-- returns: as claim_events.sql; position; lane: the line's position in the arrays, from 1
-- locks: nothing: a transaction that changes the rows locks the bucket first, which the caller has
SELECT {claimed event}, e.position, line.lane
  FROM unnest($2::text[], $3::bigint[], $4::integer[]) WITH ORDINALITY AS line(key, position, rows, lane)
 CROSS JOIN LATERAL (
     SELECT * FROM {schema}.events e
      WHERE e.position IS NOT NULL AND e.topic = $1 AND e.ordering_key = line.key AND e.position >= line.position
      ORDER BY e.position LIMIT line.rows) e
