-- Send settled deliveries again: new commands with the same payload, and so the same message id.
-- parameters: $1 bigint[] ids, $2 text actor, $3 text reason
-- returns: old_id, new_id of each
-- locks: the new rows
SELECT old_id, new_id FROM {schema}.resend_deliveries($1::bigint[], $2, $3)
