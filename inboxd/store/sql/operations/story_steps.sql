-- The names that rows have as steps of a workflow.
-- parameters: $1 uuid[] rows
-- returns: member (uuid), name
-- locks: nothing
SELECT member, name FROM {schema}.steps WHERE member = ANY ($1::uuid[])
