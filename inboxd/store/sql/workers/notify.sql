-- Notify the workers of a table about new rows, or that another worker has joined.
-- parameters: $1 text (events, commands, workers)
-- returns: nothing
-- locks: PostgreSQL's notification queue, at commit
SELECT pg_notify('{schema}_' || $1::text, '')
