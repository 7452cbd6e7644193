-- Until the transaction ends, no other transaction adds or deletes series.
-- parameters: none
-- returns: a row without meaning
-- locks: adding and deleting series (advisory); another leader waits
SELECT pg_advisory_xact_lock(hashtext('{schema}.stats_series'))
