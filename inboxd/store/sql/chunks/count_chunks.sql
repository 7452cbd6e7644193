-- The number of waiting chunks of a batch topic that flush_chunks.sql would make due.
-- parameters: $1 text topic, $2 text ordering key (null: all of the topic), $3 integer: where counting stops
-- returns: count
-- locks: nothing
SELECT count(*) AS count
  FROM (SELECT FROM {schema}.events h
         WHERE h.head AND h.status = 'waiting' AND h.topic = $1 AND h.mode = 'batch'
           AND ($2::text IS NULL OR h.ordering_key = $2) AND h.run_at > clock_timestamp() LIMIT $3) counted
