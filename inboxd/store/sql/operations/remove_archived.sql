-- Delete the record that a failure group is archived.
-- parameters: $1 text fingerprint
-- returns: kind of each that was archived; no row if none was
-- locks: its rows
DELETE FROM {schema}.archived_failures WHERE fingerprint = $1 RETURNING kind
