-- Until the transaction ends, a lock is waited for only briefly: for less time than the server takes to find a deadlock, so
-- that rows which were taken in whatever order end nobody else's transaction.
-- parameters: none
-- returns: nothing
-- locks: nothing
SET LOCAL lock_timeout = '500ms'
