-- One process at a time makes a template on a server: migrations make the roles, which all databases share.
-- parameters: none
-- returns: nothing
-- locks: an advisory lock of the database that is connected to, until the session ends or gives it back
SELECT pg_advisory_lock(hashtext('inboxd test templates'))
