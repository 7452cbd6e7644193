-- Let the events of a stretch of a line run one by one, from their lanes: one of them may kill its worker.
-- parameters: $1 text topic, $2 text ordering key, $3 and $4 bigint first and last position
-- returns: nothing (the command tag counts the rows)
-- locks: the rows; the caller has the bucket
UPDATE {schema}.events e
   SET status = 'pending', position = NULL, head = false, run_at = clock_timestamp(), updated_at = clock_timestamp()
 WHERE e.position IS NOT NULL AND e.topic = $1 AND e.ordering_key = $2 AND e.position BETWEEN $3 AND $4
