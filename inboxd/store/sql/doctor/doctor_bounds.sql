-- Set this transaction's time limits, a search path that shortens no name, and PostgreSQL's default formats of times,
-- since results are compared with a file.
-- parameters: $1 text time that a statement may take, $2 text time that it may wait for a lock
-- returns: one row
-- locks: nothing
SELECT set_config('statement_timeout', $1, true), set_config('lock_timeout', $2, true),
       set_config('search_path', 'pg_catalog', true), set_config('datestyle', 'ISO, MDY', true),
       set_config('intervalstyle', 'postgres', true)
