-- A portion of a line's events, in order.
-- parameters: $1 text topic, $2 text ordering key, $3 bigint: after this position, $4 bigint: up to this one,
--             $5 integer rows
-- returns: as claim_events.sql; position; lane (1)
-- locks: nothing: a transaction that changes the rows locks the bucket first, which the caller has
SELECT {claimed event}, e.position, 1 AS lane
  FROM {schema}.events e
 WHERE e.position IS NOT NULL AND e.topic = $1 AND e.ordering_key = $2 AND e.position > $3 AND e.position <= $4
 ORDER BY e.position LIMIT $5
