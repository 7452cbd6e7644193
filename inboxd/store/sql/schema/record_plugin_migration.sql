-- Record that a migration of a plugin ran; in its own transaction, if it has one.
-- parameters: $1 text plugin, $2 integer version, $3 text name, $4 text checksum, $5 text distribution
-- returns: nothing
-- locks: the new row
INSERT INTO {schema}.plugin_migrations (plugin, version, name, checksum, distribution)
VALUES ($1, $2, $3, $4, $5)
