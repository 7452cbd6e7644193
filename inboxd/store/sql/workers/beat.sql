-- Renew the lease: raise this worker's heartbeat number; return the state of the fleet and requested cancellations. A
-- row with a worker is running (a constraint guarantees it); with a condition on the status, the planner might use the
-- index of running rows, which under a held snapshot has a dead entry of each command that this worker ever claimed.
-- parameters: $1 uuid worker, $2 integer in flight, $3 integer of them events,
--             $4 text state (running, draining)
-- returns: one row, or none if this worker was declared dead: peers (other live workers), uniform
--          (they all declare what this one does), last_death (newest death, null: none),
--          cancelled (bigint[]: its running commands whose cancellation was requested)
-- locks: the worker's row
UPDATE {schema}.workers me
   SET heartbeat = me.heartbeat + 1, beat_at = clock_timestamp(), in_flight = $2, events_in_flight = $3,
       state = $4
 WHERE me.id = $1::uuid AND me.state IN ('running', 'draining')
RETURNING (SELECT count(*) FROM {schema}.workers w
            WHERE w.state = 'running' AND w.id <> me.id)::integer AS peers,
          NOT EXISTS (SELECT 1 FROM {schema}.workers w
                       WHERE w.state = 'running' AND w.declares <> me.declares) AS uniform,
          (SELECT max(w.ended_at) FROM {schema}.workers w WHERE w.state = 'dead') AS last_death,
          ARRAY(SELECT c.id FROM {schema}.commands c
                 WHERE c.worker_id = me.id AND c.cancel_requested) AS cancelled
