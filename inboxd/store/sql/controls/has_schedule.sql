-- Whether there is a schedule with this name.
-- parameters: $1 text name
-- returns: one boolean
-- locks: nothing
SELECT EXISTS (SELECT FROM {schema}.schedules WHERE name = $1)
