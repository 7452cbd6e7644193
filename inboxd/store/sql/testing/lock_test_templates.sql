-- One process at a time makes a template on a server, since migrations make roles, which all databases share.
-- parameters: none
-- returns: nothing
-- locks: an advisory lock of the connected database, until the session ends or unlocks it
SELECT pg_advisory_lock(hashtext('inboxd test templates'))
