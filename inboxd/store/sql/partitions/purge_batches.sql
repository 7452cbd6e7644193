-- Look at the next batches by id, and delete those that ended long ago, with their steps and edges.
-- A batch is kept if it has a dead letter, if a row waits for it, if it has progress that is not folded, or if the batch
-- around it still exists.
-- parameters: $1 interval age, $2 bigint the number to go on from, $3 integer batches to look at
-- returns: last (the number to go on from, null: all were looked at), removed
-- locks: the batches that are removed, and their steps and edges
WITH looked AS MATERIALIZED (
    SELECT id, batch_id, status, parent_id, finished_at FROM {schema}.batches
     WHERE id > $2 AND created_at < now() - $1::interval ORDER BY id LIMIT $3
), ended AS MATERIALIZED (
    SELECT b.id, b.batch_id FROM looked b
     WHERE b.finished_at < now() - $1::interval AND b.status IN ('succeeded', 'failed', 'cancelled')
       AND NOT EXISTS (SELECT FROM {schema}.commands c WHERE c.batch_id = b.id AND c.status <> 'running' OFFSET 0)
       AND b.id <> ALL (ARRAY(SELECT c.batch_id FROM {schema}.commands c
                               WHERE c.status = 'running' AND c.batch_id IS NOT NULL))
       AND NOT EXISTS (SELECT FROM {schema}.batches p WHERE p.id = b.parent_id OFFSET 0)
       AND NOT EXISTS (SELECT FROM {schema}.batches p WHERE p.parent_id = b.id AND p.finished_at IS NULL OFFSET 0)
       AND NOT EXISTS (SELECT FROM {schema}.dependencies d WHERE d.needs = b.batch_id OFFSET 0)
       AND NOT EXISTS (SELECT FROM {schema}.batch_progress g WHERE g.batch_id = b.id OFFSET 0)
), no_steps AS (
    DELETE FROM {schema}.steps s USING ended WHERE s.batch_id BETWEEN ended.id AND ended.id
), no_edges AS (
    DELETE FROM {schema}.dependencies d USING ended WHERE d.waiting BETWEEN ended.batch_id AND ended.batch_id
), gone AS (
    DELETE FROM {schema}.batches b USING ended WHERE b.id BETWEEN ended.id AND ended.id RETURNING b.id
)
SELECT (SELECT max(id) FROM looked HAVING count(*) = $3) AS last, (SELECT count(*) FROM gone) AS removed
