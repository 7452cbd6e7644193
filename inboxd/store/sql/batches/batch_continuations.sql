-- Commands and batches that still wait for a batch.
-- parameters: $1 uuid batch, $2 integer limit
-- returns: condition, id, type, status
-- locks: nothing
SELECT d.condition, coalesce(c.id, b.id) AS id, coalesce(c.type, b.kind) AS type, coalesce(c.status, b.status) AS status
  FROM {schema}.dependencies d
  LEFT JOIN LATERAL (
      SELECT id, type, status FROM {schema}.commands c WHERE c.command_id = d.waiting LIMIT 1) c ON true
  LEFT JOIN LATERAL (SELECT id, kind, status FROM {schema}.batches b WHERE b.batch_id = d.waiting LIMIT 1) b ON true
 WHERE d.needs = $1::uuid
 ORDER BY d.condition, 2 LIMIT $2
