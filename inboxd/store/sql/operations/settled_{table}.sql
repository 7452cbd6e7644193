-- The results of rows that are in history.
-- parameters: $1 bigint[] ids, $2 uuid[] their event_ids or command_ids
-- returns: id, uuid, status, hot (actions are possible), tenant, updated_at
-- locks: nothing
SELECT id, {kind}_id AS uuid, status, false AS hot, tenant, updated_at FROM {schema}.{table}_history
 WHERE id = ANY ($1::bigint[]) OR {kind}_id = ANY ($2::uuid[])
