-- Keep the probe of a breaker; nobody is notified of that.
-- parameters: $1 text name, $2 bigint the version that is known, $3 uuid the worker, $4 float8 seconds from now
-- returns: version; no row when it is this worker's no more
-- locks: the row
UPDATE {schema}.breakers
   SET probe_until = clock_timestamp() + make_interval(secs => $4)
 WHERE name = $1 AND version = $2 AND probe_by = $3 AND probe_until > clock_timestamp()
RETURNING version
