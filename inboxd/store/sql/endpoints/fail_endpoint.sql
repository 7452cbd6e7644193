-- Write down that an endpoint fails, and since when, if nobody changed it meanwhile, and nobody noted a success since
-- then; workers are notified by a trigger. The time is that of the failure, not of this writing: so a success that
-- another worker had in between is later.
-- parameters: $1 text name, $2 bigint the version that is known, $3 int the answer's status (null: there was none),
--   $4 text what went wrong, $5 double precision seconds since the first failure
-- returns: version; no row when somebody changed it, or noted a success since then
-- locks: the row
UPDATE {schema}.endpoints
   SET failing_since = coalesce(failing_since, statement_timestamp() - make_interval(secs => $5)),
       last_failure_at = clock_timestamp(), last_failure = $4, last_status = $3, version = version + 1
 WHERE name = $1 AND version = $2
   AND (last_success_at < statement_timestamp() - make_interval(secs => $5)) IS NOT FALSE
RETURNING version
