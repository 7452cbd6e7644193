-- Lock a bulk action; waits for the transaction of a worker that works on it.
-- parameters: $1 bigint id
-- returns: the action, and now; or nothing
-- locks: its row, until the transaction ends
SELECT a.*, clock_timestamp() AS now FROM {schema}.actions a WHERE id = $1 FOR UPDATE
