-- Remove dead letters from their lines, which go on without them (`skip`).
-- parameters: $1 bigint[] ids
-- returns: nothing (the command tag counts the rows)
-- locks: the rows, and those that become the heads; the caller has their buckets
UPDATE {schema}.events SET position = NULL, head = false WHERE id = ANY ($1::bigint[])
