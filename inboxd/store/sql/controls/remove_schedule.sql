-- Remove a schedule that an operator added, and its pause. Runs in the transaction that has locked the schedule.
-- parameters: $1 bigint id
-- returns: nothing
-- locks: the rows
WITH gone AS (
    DELETE FROM {schema}.schedules WHERE id = $1 RETURNING name
)
DELETE FROM {schema}.controls c USING gone WHERE c.kind = 'schedule' AND c.name = gone.name
