-- Lock those of these events that are free, in the order of ids; waits for nothing.
-- parameters: $1 bigint[] ids
-- returns: id, status, mode
-- locks: the rows, FOR UPDATE SKIP LOCKED
SELECT id, status, mode FROM {schema}.events WHERE id = ANY ($1::bigint[]) ORDER BY id FOR UPDATE SKIP LOCKED
