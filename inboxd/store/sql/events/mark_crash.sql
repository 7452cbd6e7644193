-- Count a crash before an event runs alone, so that an event which kills the process is found; until $2 is over, workers
-- do not claim it. The next transaction claims it by id.
-- parameters: $1 bigint id, $2 interval for how long it is kept
-- returns: nothing
-- locks: the row (held already)
UPDATE {schema}.events SET crashes = least(crashes + 1, 32767), run_at = clock_timestamp() + $2::interval
 WHERE id = $1
