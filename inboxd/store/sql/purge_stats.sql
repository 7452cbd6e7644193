-- Remove old statistics.
-- parameters: $1 interval age, $2 integer rows
-- returns: how many were removed
-- locks: the rows
WITH gone AS (
    DELETE FROM {schema}.stats s
     USING (SELECT minute, worker_id, kind, type, outcome FROM {schema}.stats
             WHERE minute < now() - $1::interval ORDER BY minute LIMIT $2) AS old
     WHERE (s.minute, s.worker_id, s.kind, s.type, s.outcome)
         = (old.minute, old.worker_id, old.kind, old.type, old.outcome)
    RETURNING 1)
SELECT count(*) FROM gone
