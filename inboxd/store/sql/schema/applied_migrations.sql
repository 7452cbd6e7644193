-- The migrations that ran, in order.
-- parameters: none
-- returns: version, name, oldest_code, checksum
-- locks: nothing
SELECT version, name, oldest_code, checksum FROM {schema}.schema_migrations ORDER BY version
