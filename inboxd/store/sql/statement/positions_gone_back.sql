-- Streams of messages whose stored position is lower than at the last check, though no operator has reset them since.
-- parameters: $1 timestamptz the time of the last check
-- returns: source, stream, was, position (null: nothing of it is stored)
-- locks: nothing
SELECT o.source, o.stream, o.position AS was, n.position
  FROM {schema}.statement_positions o
  LEFT JOIN {schema}.stream_positions n ON n.source = o.source AND n.stream = o.stream
 WHERE o.position IS NOT NULL
   AND (n.source IS NULL OR n.fence < o.fence
        OR n.identity = o.identity AND coalesce(n.position < o.position, true))
   AND NOT EXISTS (SELECT FROM {schema}.audit a
                    WHERE a.at >= $1::timestamptz AND a.action LIKE 'reset%'
                      AND a.target = format('stream %s %s', o.source, o.stream) OFFSET 0)
