-- Write down that an endpoint fails no more, if nobody changed it meanwhile; workers are notified by a trigger.
-- parameters: $1 text name, $2 bigint the version that is known, $3 int the answer's status
-- returns: version; no row when somebody changed it
-- locks: the row
UPDATE {schema}.endpoints
   SET failing_since = NULL, last_success_at = clock_timestamp(), last_status = $3, version = version + 1
 WHERE name = $1 AND version = $2
RETURNING version
