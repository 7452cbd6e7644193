-- Open a stream of a source of messages: from now on, earlier readers can store nothing of it.
-- parameters: $1 text source, $2 text stream, $3 uuid worker
-- returns: position (null: nothing is stored), identity, begins (null: as the settings say), fence
-- locks: its row, for which it waits while a page of it is stored
INSERT INTO {schema}.stream_positions AS s (source, stream, reader, opened_at)
VALUES ($1, $2, $3::uuid, clock_timestamp())
ON CONFLICT (source, stream) DO UPDATE
   SET fence = s.fence + 1, reader = excluded.reader, opened_at = excluded.opened_at
RETURNING position, identity, begins, fence
