-- How events ended that are not in the hot table any more.
-- parameters: $1 bigint[] ids, $2 uuid[] event_ids
-- returns: id, uuid, status, hot (it can be acted on)
-- locks: nothing
SELECT id, event_id AS uuid, status, false AS hot FROM {schema}.events_history
 WHERE id = ANY ($1::bigint[]) OR event_id = ANY ($2::uuid[])
