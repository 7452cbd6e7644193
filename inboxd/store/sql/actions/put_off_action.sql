-- A transaction of a bulk action met a lock that somebody has: it is tried again later, as if it had not been tried.
-- parameters: $1 bigint id, $2 interval until the next, $3 text why
-- returns: nothing
-- locks: its row
UPDATE {schema}.actions SET next_at = clock_timestamp() + $2::interval, note = $3
 WHERE id = $1 AND status || '' IN ('scheduled', 'canary', 'running')
