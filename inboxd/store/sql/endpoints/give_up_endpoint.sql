-- Disable an endpoint that fails, if its version is unchanged; a trigger notifies workers.
-- parameters: $1 text name, $2 bigint the known version, $3 text failures or gone, $4 text why, without contents,
--   $5 int the answer's status (null: no answer came), $6 text the error, which may quote the answer
-- returns: version; no row if it has changed, or the endpoint is already disabled
-- locks: the row
UPDATE {schema}.endpoints
   SET enabled = false, disabled_at = clock_timestamp(), disabled_by = $3, disabled_reason = $4,
       last_status = $5, last_failure = $6, last_failure_at = clock_timestamp(),
       version = version + 1, changed_at = clock_timestamp()
 WHERE name = $1 AND version = $2 AND enabled
RETURNING version
