-- Record that a transaction of a bulk action failed: it is retried later, and after some failures paused.
-- parameters: $1 bigint id, $2 text why, $3 integer tries until it is paused, $4 interval until the next
-- returns: status
-- locks: its row
UPDATE {schema}.actions
   SET failures = failures + 1, next_at = clock_timestamp() + $4::interval, note = $2,
       goes_on_as = CASE WHEN failures + 1 >= $3 THEN status END,
       status = CASE WHEN failures + 1 >= $3 THEN 'paused' ELSE status END
 WHERE id = $1 AND status || '' IN ('scheduled', 'canary', 'running')
RETURNING status
