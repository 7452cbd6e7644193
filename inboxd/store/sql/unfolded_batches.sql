-- Batches with something that nobody has folded yet.
-- parameters: $1 double precision seconds that it has been there
-- returns: batch_id
-- locks: none
SELECT DISTINCT batch_id FROM {schema}.batch_progress
 WHERE at <= clock_timestamp() - make_interval(secs => $1::double precision) LIMIT 1000
