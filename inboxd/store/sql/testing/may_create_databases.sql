-- The session's role, and whether it may create databases.
-- parameters: none
-- returns: role, may
-- locks: nothing
SELECT rolname AS role, rolcreatedb OR rolsuper AS may FROM pg_roles WHERE rolname = current_user
