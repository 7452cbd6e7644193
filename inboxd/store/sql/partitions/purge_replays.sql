-- Delete old replays, whose rows are gone from history.
-- parameters: $1 interval age, $2 integer rows
-- returns: how many were removed
-- locks: the rows
WITH gone AS (
    DELETE FROM {schema}.replays
     WHERE ctid = ANY (ARRAY(SELECT old.ctid FROM {schema}.replays old
                              WHERE old.at < now() - $1::interval ORDER BY old.at LIMIT $2))
    RETURNING 1)
SELECT count(*) FROM gone
