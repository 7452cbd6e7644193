-- Lock the bulk action that is due first, of those that no other transaction has locked.
-- parameters: none
-- returns: the action, and now; or nothing
-- locks: its row, until the transaction ends
SELECT a.*, clock_timestamp() AS now FROM {schema}.actions a
 WHERE status IN ('scheduled', 'canary', 'running') AND next_at <= clock_timestamp()
 ORDER BY next_at, id LIMIT 1 FOR UPDATE SKIP LOCKED
