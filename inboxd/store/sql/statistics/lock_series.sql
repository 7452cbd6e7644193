-- Until the transaction ends, nobody else gives numbers to what is counted apart, or takes them away.
-- parameters: none
-- returns: nothing that is of use
-- locks: the numbers of the series; another leader waits
SELECT pg_advisory_xact_lock(hashtext('{schema}.stats_series'))
