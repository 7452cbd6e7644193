-- Whether this database has a clock that tests can move.
-- parameters: none
-- returns: boolean
-- locks: nothing
SELECT to_regclass('inboxd_clock.travelled') IS NOT NULL
