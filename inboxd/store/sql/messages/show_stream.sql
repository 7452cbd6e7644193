-- One stream of a source of messages, with its stored position.
-- parameters: $1 text source, $2 text stream
-- returns: as list_streams; or nothing
-- locks: nothing
SELECT source, stream, position, begins, identity, opened_at, stored_at, reader
  FROM {schema}.stream_positions WHERE source = $1 AND stream = $2
