-- Until the transaction ends, wait only briefly for locks: for less time than the server needs to detect a deadlock, so
-- that the server aborts none of the other transactions because of the order in which this one locks rows.
-- parameters: none
-- returns: nothing
-- locks: nothing
SET LOCAL lock_timeout = '500ms'
