-- Delete old samples.
-- parameters: $1 interval age, $2 integer rows
-- returns: how many were deleted
-- locks: the rows
WITH gone AS (
    DELETE FROM {schema}.samples
     WHERE ctid = ANY (ARRAY(SELECT old.ctid FROM {schema}.samples old
                              WHERE old.at < now() - $1::interval ORDER BY old.at LIMIT $2))
    RETURNING 1)
SELECT count(*) FROM gone
