-- The migrations of plugins that ran, in order.
-- parameters: none
-- returns: plugin, version, name, checksum, distribution, applied_at
-- locks: nothing
SELECT plugin, version, name, checksum, distribution, applied_at
  FROM {schema}.plugin_migrations ORDER BY plugin, version
