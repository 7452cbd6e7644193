-- What time it is, for windows that end now.
-- parameters: none
-- returns: now
-- locks: nothing
SELECT statement_timestamp() AS now
