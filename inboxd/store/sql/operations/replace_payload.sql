-- Replace the payload of a command that this transaction has inserted as a replay.
-- parameters: $1 bigint id, $2 text payload
-- returns: id; null for any other command
-- locks: the row
SELECT {schema}.replace_payload($1, $2::text::jsonb) AS id
