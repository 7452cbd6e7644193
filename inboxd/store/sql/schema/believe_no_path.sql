-- Until the transaction ends, names without a schema cannot mean objects in this role's search path.
-- parameters: none
-- returns: the path
-- locks: nothing
SELECT set_config('search_path', 'pg_catalog, pg_temp', true)
