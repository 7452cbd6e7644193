-- The types among these that occur in a stretch of a line.
-- parameters: $1 text topic, $2 text ordering key, $3 and $4 bigint first and last position, $5 text[] types
-- returns: type
-- locks: nothing
SELECT wanted.type
  FROM unnest($5::text[]) AS wanted(type)
 WHERE EXISTS (SELECT FROM {schema}.events e
                WHERE e.position IS NOT NULL AND e.topic = $1 AND e.ordering_key = $2 AND e.position BETWEEN $3 AND $4
                  AND e.type = wanted.type)
