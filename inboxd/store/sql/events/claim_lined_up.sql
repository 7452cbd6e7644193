-- Read the lined-up rows of lines with due heads, each line from its head on, in the order of positions.
-- The caller holds the buckets since an earlier statement.
-- parameters: arrays, one entry a line: $1 text[] topics, $2 text[] ordering keys; then $3 integer rows
-- returns: as claim_events.sql; bucket, lane (position in the arrays, from 1), position; ready: it is due and
--          not a dead letter; behind (false)
-- locks: nothing: a transaction that changes the rows locks the bucket first
SELECT {claimed event},
       e.bucket, e.position, e.status = 'waiting' AND e.run_at <= now() AS ready, false AS behind, line.lane
  FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS line(topic, key, lane)
 CROSS JOIN LATERAL (
     SELECT h.position, h.status, h.run_at FROM {schema}.events h
      WHERE h.head AND h.topic = line.topic AND h.ordering_key = line.key LIMIT 1) head
 CROSS JOIN LATERAL (
     SELECT * FROM {schema}.events e
      WHERE head.status = 'waiting' AND head.run_at <= now()
        AND e.position IS NOT NULL AND e.topic = line.topic AND e.ordering_key = line.key AND e.position >= head.position
      ORDER BY e.position
      LIMIT $3) e
 LIMIT $3
