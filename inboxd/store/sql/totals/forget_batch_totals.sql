-- Delete totals of batches that are 0, so that types and tenants without batches leave nothing.
-- parameters: $1 integer totals
-- returns: nothing
-- locks: the totals; those that another leader holds are skipped
DELETE FROM {schema}.batch_totals
 WHERE ctid = ANY (ARRAY(SELECT t.ctid FROM {schema}.batch_totals t WHERE t.rows = 0 LIMIT $1 FOR UPDATE SKIP LOCKED))
