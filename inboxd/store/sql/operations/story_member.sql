-- One row of a story, by its kind and number, if it was settled in a span or is not settled: of history that span's days
-- are read alone.
-- parameters: $1 text kind, $2 bigint id, $3 and $4 timestamptz the span
-- returns: a row of the view story, or none
-- locks: nothing
SELECT {story of s} FROM {schema}.story s
 WHERE s.kind = $1::text AND s.id = $2::bigint
   AND (s.hot OR s.finished_at BETWEEN $3::timestamptz AND $4::timestamptz) LIMIT 1
