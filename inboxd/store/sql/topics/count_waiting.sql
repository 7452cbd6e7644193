-- The number of events that wait in the lines of topics. Of each topic only $3 arrivals and $3 lined-up events are looked
-- at.
-- parameters: $1 text[] topics, $2 text type (null: any), $3 integer limit of each look
-- returns: count
-- locks: nothing
SELECT count(*)
  FROM unnest($1::text[]) AS line(topic)
 CROSS JOIN LATERAL (
     (SELECT e.type, e.status FROM {schema}.events e
       WHERE e.status = 'waiting' AND e.position IS NULL AND e.topic = line.topic LIMIT $3)
     UNION ALL
     (SELECT e.type, e.status FROM {schema}.events e
       WHERE e.position IS NOT NULL AND e.topic = line.topic LIMIT $3)) AS few
 WHERE few.status = 'waiting' AND ($2::text IS NULL OR few.type = $2)
