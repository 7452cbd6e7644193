-- Count the streams of all sources of messages.
-- parameters: none
-- returns: count
-- locks: nothing
SELECT count(*) FROM {schema}.stream_positions
