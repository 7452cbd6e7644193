-- Let a failure group be archived no more.
-- parameters: $1 text fingerprint
-- returns: kind of each that was; no row when it was not
-- locks: its rows
DELETE FROM {schema}.archived_failures WHERE fingerprint = $1 RETURNING kind
