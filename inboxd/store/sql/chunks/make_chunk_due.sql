-- Make the events of a stretch of a line due now: a shorter chunk is tried, and whichever other event becomes the head
-- must not wait for its own time.
-- parameters: $1 text topic, $2 text ordering key, $3 and $4 bigint first and last position
-- returns: nothing (the command tag counts the rows)
-- locks: the rows; the caller has the bucket
UPDATE {schema}.events e
   SET run_at = clock_timestamp(), updated_at = clock_timestamp()
 WHERE e.position IS NOT NULL AND e.topic = $1 AND e.ordering_key = $2 AND e.position BETWEEN $3 AND $4
   AND e.run_at > clock_timestamp()
