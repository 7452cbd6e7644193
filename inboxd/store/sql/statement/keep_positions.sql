-- Record the current positions of streams of messages.
-- parameters: none
-- returns: nothing
-- locks: the rows
WITH gone AS (
    DELETE FROM {schema}.statement_positions o
     WHERE NOT EXISTS (SELECT FROM {schema}.stream_positions n WHERE n.source = o.source AND n.stream = o.stream OFFSET 0)
)
INSERT INTO {schema}.statement_positions AS old (source, stream, position, identity, fence)
SELECT n.source, n.stream, n.position, n.identity, n.fence FROM {schema}.stream_positions n ORDER BY 1, 2
ON CONFLICT (source, stream) DO UPDATE
   SET position = excluded.position, identity = excluded.identity, fence = excluded.fence
