-- Remove old statistics.
-- parameters: $1 interval age, $2 integer rows
-- returns: how many were removed
-- locks: the rows
WITH gone AS (
    DELETE FROM {schema}.stats
     WHERE ctid = ANY (ARRAY(SELECT old.ctid FROM {schema}.stats old
                              WHERE old.minute < now() - $1::interval ORDER BY old.minute LIMIT $2))
    RETURNING 1)
SELECT count(*) FROM gone
