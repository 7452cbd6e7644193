-- The streams of sources of messages, with their stored positions.
-- parameters: $1 integer limit, $2 text source (null: all)
-- returns: source, stream, position (null: nothing is stored, or its broker has none), begins (null: as the settings say),
--          identity, opened_at, stored_at, reader (uuid of the worker that opened it; null: it was reset since)
-- locks: nothing
SELECT source, stream, position, begins, identity, opened_at, stored_at, reader
  FROM {schema}.stream_positions WHERE $2::text IS NULL OR source = $2 ORDER BY source, stream LIMIT $1
