-- Record that a migration ran, in its own transaction.
-- parameters: $1 integer version, $2 text name, $3 integer oldest code, $4 text checksum
-- returns: nothing
-- locks: the new row
INSERT INTO {schema}.schema_migrations (version, name, oldest_code, checksum)
VALUES ($1, $2, $3, $4)
