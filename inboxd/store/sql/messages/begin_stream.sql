-- Set where a stream begins of which nothing is stored yet: the position counts as stored.
-- parameters: $1 text source, $2 text stream, $3 bigint fence, $4 bigint position, $5 text identity
-- returns: fence, or nothing: another reader has opened it, or an operator reset it
-- locks: its row
UPDATE {schema}.stream_positions SET position = $4, identity = $5, begins = NULL
 WHERE source = $1 AND stream = $2 AND fence = $3 AND position IS NULL
RETURNING fence
