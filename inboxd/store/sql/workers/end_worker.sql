-- End a worker after a regular stop: the reaper has nothing to take back.
-- parameters: $1 uuid worker
-- returns: nothing
-- locks: the worker's row
UPDATE {schema}.workers SET state = 'stopped', ended_at = clock_timestamp(), in_flight = 0, events_in_flight = 0
 WHERE id = $1::uuid AND state IN ('running', 'draining')
