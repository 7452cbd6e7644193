-- Let nobody else order a bulk action until the transaction ends, so that those that have not ended can be counted.
-- parameters: none
-- returns: nothing
-- locks: the orders of others, until the transaction ends
SELECT pg_advisory_xact_lock(hashtext('{schema}/actions'), 0)
