-- Take back the commands of a dead worker: a crash each, not an attempt; the last crash allowed makes
-- a dead letter.
-- parameters: $1 uuid worker, $2 integer crashes that make a dead letter
-- returns: id, type, status of each
-- locks: the rows, NOWAIT: somebody who holds one settles it, and a settlement locks its rows in whatever order
--        its plan finds them, so that who waited here could close a circle (55P03, lock_not_available)
UPDATE {schema}.commands
   SET status = CASE WHEN crashes + 1 >= $2 THEN 'failed' ELSE 'pending' END,
       crashes = crashes + 1,
       worker_id = NULL,
       started_at = NULL,
       errors = CASE WHEN jsonb_array_length(errors) >= 50 THEN errors - 0 ELSE coalesce(errors, '[]') END
                || jsonb_build_object('at', clock_timestamp(), 'attempt', attempts + 1, 'worker', $1::uuid,
                                      'error', 'WorkerDied: the worker died while it ran this command'),
       fingerprint = 'worker-died:' || type,
       updated_at = clock_timestamp()
 WHERE worker_id = $1::uuid AND id = ANY (ARRAY(
     SELECT c.id FROM {schema}.commands c
      WHERE c.worker_id = $1::uuid AND c.status = 'running' FOR UPDATE NOWAIT))
RETURNING id, type, status
