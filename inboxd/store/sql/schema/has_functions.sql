-- Is what was made of the functions written down in this schema? Not in one from before the first release.
-- parameters: none
-- returns: boolean
-- locks: nothing
SELECT to_regclass('{schema}.schema_functions') IS NOT NULL
