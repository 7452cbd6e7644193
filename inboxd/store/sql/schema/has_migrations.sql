-- Whether inboxd has ever migrated this schema.
-- parameters: none
-- returns: boolean
-- locks: nothing
SELECT to_regclass('{schema}.schema_migrations') IS NOT NULL
