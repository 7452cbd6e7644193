-- Hold the events among these that nobody has in hand: nothing is waited for. In the order of ids.
-- parameters: $1 bigint[] ids
-- returns: id, status, mode
-- locks: the rows, FOR UPDATE SKIP LOCKED
SELECT id, status, mode FROM {schema}.events WHERE id = ANY ($1::bigint[]) ORDER BY id FOR UPDATE SKIP LOCKED
