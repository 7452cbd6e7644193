-- The transactions that write to the table of events, or have done so and are open.
-- A writer has this lock from before it looks for subscriptions.
-- parameters: none
-- returns: holder (a virtual transaction)
-- locks: the lock manager's, all partitions, for as long as it takes to copy its entries
SELECT DISTINCT l.virtualtransaction AS holder
  FROM pg_locks l
 WHERE l.locktype = 'relation' AND l.relation = '{schema}.events'::regclass AND l.mode = 'RowExclusiveLock'
   AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND l.pid IS DISTINCT FROM pg_backend_pid()
