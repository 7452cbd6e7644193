-- Record that an endpoint fails, and since when, if its version is unchanged and no later success was recorded; a trigger
-- notifies workers. The time is that of the failure, not of this statement, so that a success of another worker in
-- between counts as later.
-- parameters: $1 text name, $2 bigint the known version, $3 int the answer's status (null: no answer came),
--   $4 text the error, $5 double precision seconds since the first failure
-- returns: version; no row if it has changed, or a success was recorded since then
-- locks: the row
UPDATE {schema}.endpoints
   SET failing_since = coalesce(failing_since, statement_timestamp() - make_interval(secs => $5)),
       last_failure_at = clock_timestamp(), last_failure = $4, last_status = $3, version = version + 1
 WHERE name = $1 AND version = $2
   AND (last_success_at < statement_timestamp() - make_interval(secs => $5)) IS NOT FALSE
RETURNING version
