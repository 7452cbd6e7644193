-- A suspect that ran alone has come through it for long enough: others may run beside it, so that a death is
-- no longer its own.
-- parameters: $1 bigint id, $2 bigint fence, $3 uuid worker
-- returns: nothing
-- locks: the row
UPDATE {schema}.commands SET alone_fence = NULL
 WHERE id = $1 AND fence = $2 AND worker_id = $3::uuid
