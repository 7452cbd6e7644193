-- Let a bulk action go on; one that had not begun begins at its time.
-- parameters: $1 bigint id
-- returns: nothing
-- locks: its row (held already)
UPDATE {schema}.actions
   SET status = goes_on_as, goes_on_as = NULL, note = NULL, failures = 0,
       next_at = greatest(starts_at, clock_timestamp())
 WHERE id = $1
