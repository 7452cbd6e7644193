-- The commands among these that are deliveries to an endpoint.
-- parameters: $1 text queue, $2 bigint[] ids
-- returns: id of each
-- locks: nothing
SELECT id FROM {schema}.commands WHERE id = ANY ($2::bigint[]) AND queue = $1 AND type = 'webhook.deliver'
UNION ALL
SELECT id FROM {schema}.commands_history WHERE id = ANY ($2::bigint[]) AND queue = $1 AND type = 'webhook.deliver'
