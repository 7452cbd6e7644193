-- Lock one event by id, to run it alone.
-- The condition names two statuses: for «status = 'pending'» alone, a plan that was made while the table was empty would
-- walk over the whole index of pending rows.
-- parameters: $1 bigint id
-- returns: as claim_events.sql, at most one row, lane = 0; of an event in a line also bucket and position;
--          ready (true), behind (false), which the caller has ensured
-- locks: the row, FOR UPDATE until the transaction ends
SELECT {claimed event}, 0 AS lane,
       e.bucket, e.position, true AS ready, false AS behind
  FROM {schema}.events e
 WHERE e.id = $1 AND e.status IN ('pending', 'waiting')
   FOR UPDATE SKIP LOCKED
