-- Who writes to the table of events, or has done so in a transaction that is not over.
-- A writer has this lock from before it looks for subscriptions.
-- parameters: none
-- returns: holder (a virtual transaction)
-- locks: the lock manager's, all partitions, for as long as it takes to copy what it has
SELECT DISTINCT l.virtualtransaction AS holder
  FROM pg_locks l
 WHERE l.locktype = 'relation' AND l.relation = '{schema}.events'::regclass AND l.mode = 'RowExclusiveLock'
   AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND l.pid IS DISTINCT FROM pg_backend_pid()
