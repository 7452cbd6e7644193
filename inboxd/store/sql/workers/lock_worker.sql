-- Lock a worker that looks dead, so that it can neither beat nor commit a claim. FOR UPDATE, since a
-- plain update would not conflict with the KEY SHARE of its claims; NOWAIT, since a claim or a
-- heartbeat under way is a sign of life.
-- parameters: $1 uuid worker, $2 bigint the heartbeat that has not changed
-- returns: id, or nothing if it beat or ended meanwhile
-- locks: the worker's row FOR UPDATE
SELECT id FROM {schema}.workers
 WHERE id = $1::uuid AND heartbeat = $2 AND state IN ('running', 'draining')
   FOR UPDATE NOWAIT
