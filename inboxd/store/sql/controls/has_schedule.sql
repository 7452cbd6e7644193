-- Whether somebody has declared a schedule.
-- parameters: $1 text name
-- returns: one boolean
-- locks: nothing
SELECT EXISTS (SELECT FROM {schema}.schedules WHERE name = $1)
