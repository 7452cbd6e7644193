-- Wake the workers of a table.
-- parameters: $1 text (events, commands)
-- returns: nothing
-- locks: PostgreSQL's notification queue, at commit
SELECT pg_notify('{schema}_' || $1::text, '')
