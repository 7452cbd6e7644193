-- The consequences of an action for each of some commands, and obstacles: its batch, and another holder of its unique key.
-- parameters: $1 bigint[] ids
-- returns: id, batch_id, batch_kind, batch_name, held_by (the unsettled command with its unique key), ordered
-- locks: nothing
SELECT c.id, c.batch_id, b.kind AS batch_kind, b.name AS batch_name, holder.id AS held_by,
       c.ordering_key IS NOT NULL AS ordered
  FROM {schema}.commands c
  LEFT JOIN LATERAL (SELECT kind, name FROM {schema}.batches WHERE id = c.batch_id OFFSET 0) b ON true
  LEFT JOIN LATERAL (
           SELECT o.id FROM {schema}.commands o
            WHERE o.type = c.type AND o.unique_key = c.unique_key AND o.status <> 'failed' AND o.id <> c.id LIMIT 1) holder ON true
 WHERE c.id = ANY ($1::bigint[])
 ORDER BY c.id
