-- Ends of commands that are not added to their batches yet.
-- parameters: $1 integer: count no further than this
-- returns: rows, oldest (seconds)
-- locks: nothing
SELECT count(*) AS rows, coalesce(extract(epoch FROM clock_timestamp() - min(at)), 0)::double precision AS oldest
  FROM (SELECT at FROM {schema}.batch_progress LIMIT $1) few
