-- The database's time: schedules use no other clock.
-- parameters: none
-- returns: one timestamptz
-- locks: nothing
SELECT clock_timestamp()
