-- Take the probe of a breaker whose break is over, if it is free; a trigger notifies workers.
-- parameters: $1 text name, $2 uuid the worker, $3 float8 seconds
-- returns: version; no row if the break is not over, the breaker is closed or forced, or another worker has the probe
-- locks: the row
UPDATE {schema}.breakers
   SET state = 'half_open', probe_by = $2, probe_until = clock_timestamp() + make_interval(secs => $3),
       version = version + 1, changed_at = clock_timestamp()
 WHERE name = $1 AND mode = 'auto' AND state <> 'closed' AND open_until <= clock_timestamp()
   AND (probe_until IS NULL OR probe_until <= clock_timestamp())
RETURNING version
