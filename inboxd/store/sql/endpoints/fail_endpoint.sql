-- Write down that an endpoint fails, if nobody changed it meanwhile; workers are notified by a trigger.
-- parameters: $1 text name, $2 bigint the version that is known, $3 int the answer's status (null: there was none),
--   $4 text what went wrong
-- returns: version; no row when somebody changed it
-- locks: the row
UPDATE {schema}.endpoints
   SET failing_since = coalesce(failing_since, clock_timestamp()), last_failure_at = clock_timestamp(),
       last_failure = $4, last_status = $3, version = version + 1
 WHERE name = $1 AND version = $2
RETURNING version
