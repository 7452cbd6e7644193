-- Postpone a bulk action whose transaction met a lock; this does not count as a failure.
-- parameters: $1 bigint id, $2 interval until the next, $3 text why
-- returns: nothing
-- locks: its row
UPDATE {schema}.actions SET next_at = clock_timestamp() + $2::interval, note = $3
 WHERE id = $1 AND status || '' IN ('scheduled', 'canary', 'running')
