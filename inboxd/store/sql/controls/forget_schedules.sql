-- Remove schedules that no living worker has declared for a week, and the pauses of schedules that are gone.
-- parameters: none
-- returns: name of each
-- locks: the rows
WITH gone AS (
    DELETE FROM {schema}.schedules WHERE added_at IS NULL AND undeclared_at < clock_timestamp() - interval '7 days'
    RETURNING name
), pauses AS (
    DELETE FROM {schema}.controls c USING gone WHERE c.kind = 'schedule' AND c.name = gone.name
)
SELECT name FROM gone
