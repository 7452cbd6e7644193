-- The streams that this reader has lost: another one has opened them, or an operator reset them.
-- parameters: $1 text source, $2 text[] streams, $3 bigint[] fences
-- returns: stream, reader (null: an operator reset it)
-- locks: nothing
SELECT u.stream, s.reader
  FROM unnest($2::text[], $3::bigint[]) AS u(stream, fence)
  LEFT JOIN LATERAL (SELECT p.fence, p.reader FROM {schema}.stream_positions p
                      WHERE p.source = $1 AND p.stream = u.stream OFFSET 0) AS s ON true
 WHERE u.fence IS DISTINCT FROM s.fence
