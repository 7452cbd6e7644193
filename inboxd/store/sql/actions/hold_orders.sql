-- Lock out other orders of bulk actions until the transaction ends, so that unfinished ones can be counted.
-- parameters: none
-- returns: nothing
-- locks: other orders (advisory), until the transaction ends
SELECT pg_advisory_xact_lock(hashtext('{schema}/actions'), 0)
