-- Let others who hold the same target wait until the transaction ends.
-- parameters: $1 text target, as in the audit
-- returns: nothing
-- locks: the target (advisory), until the transaction ends
SELECT pg_advisory_xact_lock(hashtext('{schema}.audit'), hashtext($1))
