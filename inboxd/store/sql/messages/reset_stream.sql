-- Set where a stream is read from: its current reader can store nothing more of it, and opens it again.
-- parameters: $1 text source, $2 text stream, $3 bigint position that counts as stored (null: none), $4 text where to begin
--             then (oldest, newest)
-- returns: stream, or nothing if the stream does not exist
-- locks: its row, for which it waits while a page of it is stored
UPDATE {schema}.stream_positions
   SET position = $3, begins = $4, identity = '', fence = fence + 1, reader = NULL, stored_at = NULL
 WHERE source = $1 AND stream = $2
RETURNING stream
