-- The commands that a settled event or command created. No index leads to them (the hot path would
-- pay for it), so history is read from the day on which the parent finished; the caller bounds it.
-- parameters: $1 uuid of the parent, $2 timestamptz when it finished, $3 integer limit
-- returns: id, command_id, queue, type, status
-- locks: nothing
SELECT id, command_id, queue, type, status FROM {schema}.commands WHERE causation_id = $1::uuid
UNION ALL
SELECT id, command_id, queue, type, status FROM {schema}.commands_history
 WHERE causation_id = $1::uuid AND finished_at >= $2::timestamptz
 LIMIT $3
