-- The names of rows that are steps of a workflow.
-- parameters: $1 uuid[] rows
-- returns: member (uuid), name
-- locks: nothing
SELECT member, name FROM {schema}.steps WHERE member = ANY ($1::uuid[])
