-- Prolong the probe of a breaker; workers are not notified.
-- parameters: $1 text name, $2 bigint the known version, $3 uuid the worker, $4 float8 seconds from now
-- returns: version; no row if this worker has lost the probe
-- locks: the row
UPDATE {schema}.breakers
   SET probe_until = clock_timestamp() + make_interval(secs => $4)
 WHERE name = $1 AND version = $2 AND probe_by = $3 AND probe_until > clock_timestamp()
RETURNING version
