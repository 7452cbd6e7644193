-- A portion of a line's events, in order.
-- parameters: $1 text topic, $2 text ordering key, $3 bigint: behind this place, $4 bigint: up to this one,
--             $5 integer rows
-- returns: as claim_events.sql; place; lane (1)
-- locks: nothing: whoever changes the rows has the bucket first, as the caller has
SELECT {claimed event}, e.place, 1 AS lane
  FROM {schema}.events e
 WHERE e.place IS NOT NULL AND e.topic = $1 AND e.ordering_key = $2 AND e.place > $3 AND e.place <= $4
 ORDER BY e.place LIMIT $5
