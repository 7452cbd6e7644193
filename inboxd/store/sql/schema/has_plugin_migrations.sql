-- Is there a record of plugins' migrations in this schema? Not in one from before them.
-- parameters: none
-- returns: boolean
-- locks: nothing
SELECT to_regclass('{schema}.plugin_migrations') IS NOT NULL
