-- Notify the listening connection itself.
-- parameters: $1 text channel, its own
-- returns: nothing
-- locks: PostgreSQL's notification queue, at commit
SELECT pg_notify($1::text, '')
