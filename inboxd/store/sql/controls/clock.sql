-- What time it is for the database: schedules know no other clock.
-- parameters: none
-- returns: one timestamptz
-- locks: nothing
SELECT clock_timestamp()
