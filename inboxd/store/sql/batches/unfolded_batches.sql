-- Batches with progress that is not folded yet.
-- parameters: $1 double precision seconds that the progress has waited, at least
-- returns: batch_id
-- locks: none
WITH RECURSIVE touched(batch_id, since) AS (
    (SELECT batch_id, at FROM {schema}.batch_progress ORDER BY batch_id, at LIMIT 1)
    UNION ALL
    SELECT following.batch_id, following.at
      FROM touched
     CROSS JOIN LATERAL (
         SELECT p.batch_id, p.at FROM {schema}.batch_progress p
          WHERE p.batch_id > touched.batch_id ORDER BY p.batch_id, p.at LIMIT 1) following
)
SELECT batch_id FROM touched
 WHERE since <= clock_timestamp() - make_interval(secs => $1::double precision) LIMIT 1000
