-- Lock commands for an operator's action, so that their status does not change meanwhile. All code locks in this order
-- (hold_in_order), against deadlocks. A caller that ends several commands calls hold_ending.sql first.
-- parameters: $1 bigint[] ids, $2 uuid[] command_ids
-- returns: id, uuid, status, hot (actions are possible), tenant, updated_at, ordered (it has an ordering key), begun (a
--          worker has claimed it before)
-- locks: the rows, FOR UPDATE
SELECT id, command_id AS uuid, status, true AS hot, tenant, updated_at,
       ordering_key IS NOT NULL AS ordered, fence > 0 AS begun
  FROM {schema}.commands
 WHERE id = ANY ($1::bigint[] || ARRAY(SELECT named.id FROM {schema}.commands named WHERE named.command_id = ANY ($2::uuid[])))
 ORDER BY needs > 0, id FOR UPDATE
