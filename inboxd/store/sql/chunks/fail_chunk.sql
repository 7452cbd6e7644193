-- Turn a stretch of a line into dead letters, all for the same reason; they leave the line.
-- parameters: $1 text topic, $2 text ordering key, $3 and $4 bigint first and last position, $5 text error (a JSON
--             object), $6 text fingerprint, $7 integer crashes
-- returns: nothing (the command tag counts the rows)
-- locks: the rows; the caller has the bucket
UPDATE {schema}.events e
   SET status = 'failed', position = NULL, head = false, attempts = least(e.attempts + 1, 32767), crashes = $7,
       errors = CASE WHEN jsonb_array_length(e.errors) >= 50 THEN e.errors - 0 ELSE coalesce(e.errors, '[]') END
                || (jsonb_build_object('at', clock_timestamp()) || $5::jsonb),
       fingerprint = $6, updated_at = clock_timestamp()
 WHERE e.position IS NOT NULL AND e.topic = $1 AND e.ordering_key = $2 AND e.position BETWEEN $3 AND $4
