-- What waits for a batch still.
-- parameters: $1 uuid batch, $2 integer limit
-- returns: condition, id, type, status
-- locks: nothing
SELECT d.condition, coalesce(c.id, b.id) AS id, coalesce(c.type, b.kind) AS type, coalesce(c.status, b.status) AS status
  FROM {schema}.dependencies d
  LEFT JOIN {schema}.commands c ON c.command_id = d.waiting
  LEFT JOIN {schema}.batches b ON b.batch_id = d.waiting
 WHERE d.needs = $1::uuid
 ORDER BY d.condition, 2 LIMIT $2
