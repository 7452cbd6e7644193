-- What was removed from history because of the age that its type may have.
-- parameters: none
-- returns: day, source, status, rows
-- locks: nothing
SELECT day, source, status, rows FROM {schema}.statement_trimmed
