-- Record that an endpoint works again, if its version is unchanged; a trigger notifies workers.
-- parameters: $1 text name, $2 bigint the known version, $3 int the answer's status (null: keep the recorded one),
--   $4 double precision seconds since the success
-- returns: version; no row if it has changed
-- locks: the row
UPDATE {schema}.endpoints
   SET failing_since = NULL, last_success_at = greatest(last_success_at, statement_timestamp() - make_interval(secs => $4)),
       last_status = coalesce($3, last_status), version = version + 1
 WHERE name = $1 AND version = $2
RETURNING version
