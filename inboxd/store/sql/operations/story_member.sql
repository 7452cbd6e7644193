-- One row of a story, by its kind and id, if it is unsettled or was settled in a span; only that span's days of history
-- are read.
-- parameters: $1 text kind, $2 bigint id, $3 and $4 timestamptz the span
-- returns: a row of the view story, or none
-- locks: nothing
SELECT {story of s} FROM {schema}.story s
 WHERE s.kind = $1::text AND s.id = $2::bigint
   AND (s.hot OR s.finished_at BETWEEN $3::timestamptz AND $4::timestamptz) LIMIT 1
