-- Insert the steps of workflows: their names, members and dependencies.
-- parameters: arrays, one entry a step: $1 bigint[] workflows, $2 text[] names, $3 uuid[] members, $4 text[] names with
--             conditions, as a JSON array of text
-- returns: nothing
-- locks: the new rows
INSERT INTO {schema}.steps (batch_id, name, member, after)
SELECT batch_id, name, member, ARRAY(SELECT jsonb_array_elements_text(after::jsonb))
  FROM unnest($1::bigint[], $2::text[], $3::uuid[], $4::text[]) AS t(batch_id, name, member, after)
