-- The waiting chunks of a batch topic, the one that is due first comes first.
-- parameters: $1 text topic, $2 integer limit, $3 interval after which a chunk is due that waits only for its count
-- returns: key, events (by positions, so events that an operator took out are counted), since (when the oldest
--          was written), due_at (null: it waits only for its count), attempts (of the chunk), and arrived (the number
--          of events that are not lined up yet, counted to 10,000, the same in each row)
-- locks: nothing
WITH arrived AS MATERIALIZED (
    SELECT count(*)::integer AS rows FROM (
        SELECT FROM {schema}.events WHERE topic = $1 AND status = 'waiting' AND position IS NULL LIMIT 10000) a
), heads AS MATERIALIZED (
    SELECT h.ordering_key, h.position, h.created_at, h.run_at, h.attempts, h.id FROM {schema}.events h
     WHERE h.head AND h.status = 'waiting' AND h.topic = $1 AND h.mode = 'batch'
     ORDER BY h.run_at, h.id LIMIT $2
)
SELECT heads.ordering_key AS key, lined_up.position - heads.position + 1 AS events, heads.created_at AS since,
       nullif(heads.run_at, heads.created_at + $3) AS due_at, heads.attempts, arrived.rows AS arrived
  FROM arrived LEFT JOIN heads ON true
  LEFT JOIN LATERAL (
     SELECT l.position FROM {schema}.events l
      WHERE l.position IS NOT NULL AND l.topic = $1 AND l.ordering_key = heads.ordering_key
      ORDER BY l.position DESC LIMIT 1) lined_up ON true
 ORDER BY heads.run_at, heads.id
