-- Insert the names of workflows' members.
-- parameters: arrays, one entry a step: $1 bigint[] workflows, $2 text[] names, $3 uuid[] members
-- returns: nothing
-- locks: the new rows
INSERT INTO {schema}.steps (batch_id, name, member)
SELECT batch_id, name, member FROM unnest($1::bigint[], $2::text[], $3::uuid[]) AS t(batch_id, name, member)
