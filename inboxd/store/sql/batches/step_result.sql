-- The result of a step, in the nearest workflow around a command's batch.
-- parameters: $1 bigint batch of the command, $2 text name of the step
-- returns: no row if the batch is in no workflow; else workflow, member (null: no such step),
--          is_batch, status (null: its row is not kept), result (JSON)
-- locks: none
WITH RECURSIVE up AS (
    SELECT id, parent_id, kind FROM {schema}.batches WHERE id = $1::bigint
    UNION ALL
    SELECT b.id, b.parent_id, b.kind
      FROM up JOIN {schema}.batches b ON b.id BETWEEN up.parent_id AND up.parent_id WHERE up.kind <> 'workflow'
)
SELECT up.id AS workflow, s.member, nested.id IS NOT NULL AS is_batch,
       coalesce(h.status, c.status) AS status, h.result
  FROM up
  LEFT JOIN LATERAL (
      SELECT member FROM {schema}.steps s WHERE s.batch_id = up.id AND s.name = $2::text LIMIT 1) s ON true
  LEFT JOIN LATERAL (SELECT id FROM {schema}.batches b WHERE b.batch_id = s.member LIMIT 1) nested ON true
  LEFT JOIN LATERAL (SELECT status FROM {schema}.commands c WHERE c.command_id = s.member LIMIT 1) c ON true
  LEFT JOIN LATERAL (
      SELECT status, result FROM {schema}.settled_commands(ARRAY[s.member]) f
       WHERE s.member IS NOT NULL AND nested.id IS NULL AND c.status IS NULL LIMIT 1) h ON true
 WHERE up.kind = 'workflow'
