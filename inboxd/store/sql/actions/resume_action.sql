-- Resume a paused bulk action, at its start time at the earliest.
-- parameters: $1 bigint id
-- returns: nothing
-- locks: its row (held already)
UPDATE {schema}.actions
   SET status = goes_on_as, goes_on_as = NULL, note = NULL, failures = 0,
       next_at = greatest(starts_at, clock_timestamp())
 WHERE id = $1
