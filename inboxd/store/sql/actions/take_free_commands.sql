-- Lock those of these commands that are free, in the order of ids; waits for nothing.
-- parameters: $1 bigint[] ids
-- returns: id, status
-- locks: the rows, FOR UPDATE SKIP LOCKED
SELECT id, status FROM {schema}.commands WHERE id = ANY ($1::bigint[]) ORDER BY id FOR UPDATE SKIP LOCKED
