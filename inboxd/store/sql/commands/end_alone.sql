-- End a suspect's time alone, once it has run alone for long enough: others may run beside it, so a death of the worker
-- no longer proves that it is the cause.
-- parameters: $1 bigint id, $2 bigint fence, $3 uuid worker
-- returns: nothing
-- locks: the row
UPDATE {schema}.commands SET alone_fence = NULL
 WHERE id = $1 AND fence = $2 AND worker_id = $3::uuid
