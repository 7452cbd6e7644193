-- Set the next time of a schedule, in the transaction that locks it and sent the due runs.
-- parameters: $1 bigint id, $2 timestamptz next time, $3 timestamptz time of the last run (null: none)
-- returns: nothing
-- locks: the row (held already)
UPDATE {schema}.schedules
   SET next_at = $2, last_at = coalesce($3, last_at), updated_at = clock_timestamp()
 WHERE id = $1
