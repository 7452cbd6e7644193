-- The headers that a claim omitted, since they are large.
-- parameters: $1 bigint[] ids
-- returns: id, headers (JSON text) of each, in no order
-- locks: nothing: the caller has the rows
SELECT id, headers::text FROM {schema}.events WHERE id = ANY ($1::bigint[])
