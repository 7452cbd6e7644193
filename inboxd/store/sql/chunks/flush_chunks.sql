-- Make the waiting chunks of a batch topic due now.
-- parameters: $1 text topic, $2 text ordering key (null: all of the topic), $3 integer most
-- returns: the ordering keys
-- locks: the heads; those that others have locked are skipped, since they are running
WITH heads AS MATERIALIZED (
    SELECT h.id FROM {schema}.events h
     WHERE h.head AND h.status = 'waiting' AND h.topic = $1 AND h.mode = 'batch'
       AND ($2::text IS NULL OR h.ordering_key = $2) AND h.run_at > clock_timestamp()
     ORDER BY h.run_at, h.id LIMIT $3 FOR UPDATE SKIP LOCKED
)
UPDATE {schema}.events e SET run_at = clock_timestamp(), updated_at = clock_timestamp()
  FROM heads WHERE e.id BETWEEN heads.id AND heads.id
RETURNING e.ordering_key
