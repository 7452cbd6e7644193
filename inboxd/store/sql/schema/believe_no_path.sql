-- Until the transaction ends, let no name mean what somebody has put into a schema of this role's search path.
-- parameters: none
-- returns: the path
-- locks: nothing
SELECT set_config('search_path', 'pg_catalog, pg_temp', true)
