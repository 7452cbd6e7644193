-- Whether this schema has a record of its functions; one from before the first release has none.
-- parameters: none
-- returns: boolean
-- locks: nothing
SELECT to_regclass('{schema}.schema_functions') IS NOT NULL
