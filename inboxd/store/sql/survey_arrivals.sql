-- Every topic and bucket that has rows which have just arrived in their lines, by a loose index scan.
-- parameters: none
-- returns: topic, bucket; of the first row: first (its id), mode, type, age (seconds since it was written)
-- locks: nothing
WITH RECURSIVE lane(topic, bucket, first) AS (
    (SELECT topic, bucket, id FROM {schema}.events WHERE status = 'waiting' AND place IS NULL
      ORDER BY topic, bucket, id LIMIT 1)
    UNION ALL
    SELECT following.topic, following.bucket, following.id
      FROM lane
     CROSS JOIN LATERAL (
         SELECT e.topic, e.bucket, e.id FROM {schema}.events e
          WHERE e.status = 'waiting' AND e.place IS NULL AND (e.topic, e.bucket) > (lane.topic, lane.bucket)
          ORDER BY e.topic, e.bucket, e.id LIMIT 1) following
)
SELECT lane.topic, lane.bucket, lane.first, e.mode, e.type,
       extract(epoch FROM clock_timestamp() - e.created_at)::double precision AS age
  FROM lane JOIN {schema}.events e ON e.id = lane.first
