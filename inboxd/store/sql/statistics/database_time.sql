-- The current time, for spans that end now.
-- parameters: none
-- returns: now
-- locks: nothing
SELECT statement_timestamp() AS now
