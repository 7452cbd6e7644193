-- Remove old replays, whose rows are gone from history.
-- parameters: $1 interval age, $2 integer rows
-- returns: how many were removed
-- locks: the rows
WITH gone AS (
    DELETE FROM {schema}.replays r
     USING (SELECT kind, old_id, new_id, at FROM {schema}.replays
             WHERE at < now() - $1::interval ORDER BY at LIMIT $2) AS old
     WHERE r.kind = old.kind AND r.old_id = old.old_id AND r.new_id = old.new_id AND r.at = old.at
    RETURNING 1)
SELECT count(*) FROM gone
