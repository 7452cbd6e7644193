-- What a step of a command's workflow came to: the nearest workflow around a batch.
-- parameters: $1 bigint batch of the command, $2 text name of the step
-- returns: no row when the batch is in no workflow; else workflow, member (null: no such step),
--          is_batch, status (null: its row is not kept), result (JSON)
-- locks: none
WITH RECURSIVE up AS (
    SELECT id, parent_id, kind FROM {schema}.batches WHERE id = $1::bigint
    UNION ALL
    SELECT b.id, b.parent_id, b.kind
      FROM up JOIN {schema}.batches b ON b.id = up.parent_id WHERE up.kind <> 'workflow'
)
SELECT up.id AS workflow, s.member, nested.id IS NOT NULL AS is_batch,
       coalesce(h.status, c.status) AS status, h.result
  FROM up
  LEFT JOIN {schema}.steps s ON s.batch_id = up.id AND s.name = $2::text
  LEFT JOIN {schema}.batches nested ON nested.batch_id = s.member
  LEFT JOIN {schema}.commands c ON c.command_id = s.member
  LEFT JOIN LATERAL (
      SELECT status, result FROM {schema}.commands_history h WHERE h.command_id = s.member LIMIT 1) h ON true
 WHERE up.kind = 'workflow'
