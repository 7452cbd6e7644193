-- Write down that an endpoint fails no more, if nobody changed it meanwhile; workers are notified by a trigger.
-- parameters: $1 text name, $2 bigint the version that is known, $3 int the answer's status (null: as it is noted),
--   $4 double precision seconds since the success
-- returns: version; no row when somebody changed it
-- locks: the row
UPDATE {schema}.endpoints
   SET failing_since = NULL, last_success_at = greatest(last_success_at, statement_timestamp() - make_interval(secs => $4)),
       last_status = coalesce($3, last_status), version = version + 1
 WHERE name = $1 AND version = $2
RETURNING version
