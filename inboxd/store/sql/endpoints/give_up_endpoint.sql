-- Disable an endpoint that fails, if nobody changed it meanwhile; workers are notified by a trigger.
-- parameters: $1 text name, $2 bigint the version that is known, $3 text failures or gone, $4 text why, for everybody,
--   $5 int the answer's status (null: there was none), $6 text what went wrong, which may quote the answer
-- returns: version; no row when somebody changed it, or it is disabled already
-- locks: the row
UPDATE {schema}.endpoints
   SET enabled = false, disabled_at = clock_timestamp(), disabled_by = $3, disabled_reason = $4,
       last_status = $5, last_failure = $6, last_failure_at = clock_timestamp(),
       version = version + 1, changed_at = clock_timestamp()
 WHERE name = $1 AND version = $2 AND enabled
RETURNING version
