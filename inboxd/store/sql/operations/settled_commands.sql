-- How commands ended that are not in the hot table any more.
-- parameters: $1 bigint[] ids, $2 uuid[] command_ids
-- returns: id, uuid, status, hot (it can be acted on)
-- locks: nothing
SELECT id, command_id AS uuid, status, false AS hot FROM {schema}.commands_history
 WHERE id = ANY ($1::bigint[]) OR command_id = ANY ($2::uuid[])
