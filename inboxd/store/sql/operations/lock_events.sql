-- Lock events for an operator's action, so that their status does not change meanwhile; in the order of ids, so that two
-- operators do not deadlock.
-- parameters: $1 bigint[] ids, $2 uuid[] event_ids
-- returns: id, uuid, status, hot (actions are possible), tenant, updated_at, topic, mode
-- locks: the rows, FOR UPDATE
SELECT id, event_id AS uuid, status, true AS hot, tenant, updated_at, topic, mode
  FROM {schema}.events
 WHERE id = ANY ($1::bigint[] || ARRAY(SELECT named.id FROM {schema}.events named WHERE named.event_id = ANY ($2::uuid[])))
 ORDER BY id FOR UPDATE
