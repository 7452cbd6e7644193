-- Record with which text a function was made, in the transaction that makes it.
-- parameters: $1 text name, $2 text checksum
-- returns: nothing
-- locks: its row
INSERT INTO {schema}.schema_functions (name, checksum) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET checksum = $2, applied_at = now(), applied_by = current_user
