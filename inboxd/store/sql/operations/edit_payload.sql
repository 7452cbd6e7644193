-- Replace the payload of a command that waits and that no worker has run yet.
-- parameters: $1 bigint id, $2 text payload
-- returns: id; null for any other command
-- locks: the row (held already)
SELECT {schema}.edit_payload($1, $2::text::jsonb) AS id
