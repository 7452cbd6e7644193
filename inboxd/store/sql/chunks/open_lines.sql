-- The lines among these that are due, the one that has been due longest first; the caller has their buckets.
-- parameters: $1 text topic, $2 text[] ordering keys, $3 integer lines, $4 boolean: also lines that are not due
-- returns: key, id and position of the head, last (the last position of the line), attempts, crashes,
--          created_at and run_at of the head, now (the database's clock), postponed (the head's time was changed
--          since it was written)
-- locks: nothing
SELECT h.ordering_key AS key, h.id, h.position, lined_up.position AS last, h.attempts, h.crashes, h.created_at,
       h.run_at, clock_timestamp() AS now, h.attempts > 0 OR h.updated_at > h.created_at AS postponed
  FROM unnest($2::text[]) AS line(key)
 CROSS JOIN LATERAL (
     SELECT * FROM {schema}.events h
      WHERE h.head AND h.topic = $1 AND h.ordering_key = line.key LIMIT 1) h
 CROSS JOIN LATERAL (
     SELECT l.position FROM {schema}.events l
      WHERE l.position IS NOT NULL AND l.topic = $1 AND l.ordering_key = line.key
      ORDER BY l.position DESC LIMIT 1) lined_up
 WHERE h.status = 'waiting' AND ($4 OR h.run_at <= clock_timestamp())
 ORDER BY h.run_at, h.id
 LIMIT $3
