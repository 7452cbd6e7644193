-- Count a crash before an event is run alone, so that poison that kills the process is found, and
-- keep the others off it meanwhile: in the next statement of a later transaction it is claimed by id.
-- parameters: $1 bigint id, $2 interval for how long it is kept
-- returns: nothing
-- locks: the row (held already)
UPDATE {schema}.events SET crashes = least(crashes + 1, 32767), run_at = clock_timestamp() + $2::interval
 WHERE id = $1
