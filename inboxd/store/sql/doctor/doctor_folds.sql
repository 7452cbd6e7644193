-- Progress of batches that is not folded yet.
-- parameters: $1 integer: where counting stops
-- returns: rows, oldest (seconds)
-- locks: nothing
SELECT count(*) AS rows, coalesce(extract(epoch FROM clock_timestamp() - min(at)), 0)::double precision AS oldest
  FROM (SELECT at FROM {schema}.batch_progress LIMIT $1) few
