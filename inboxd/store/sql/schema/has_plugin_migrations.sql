-- Whether this schema has a record of plugins' migrations; older schemas have none.
-- parameters: none
-- returns: boolean
-- locks: nothing
SELECT to_regclass('{schema}.plugin_migrations') IS NOT NULL
