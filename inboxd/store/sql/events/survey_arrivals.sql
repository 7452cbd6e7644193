-- Every topic and bucket with arrivals in its lines, by a loose index scan.
-- parameters: none
-- returns: topic, bucket; of the first row: first (its id), mode (of the events; relay: a
--          relay publishes the topic), type, age (seconds since it was written)
-- locks: nothing
WITH RECURSIVE lane(topic, bucket, first, mode, type, created_at) AS (
    (SELECT topic, bucket, id, mode, type, created_at FROM {schema}.events
      WHERE status = 'waiting' AND position IS NULL ORDER BY topic, bucket, id LIMIT 1)
    UNION ALL
    SELECT following.*
      FROM lane
     CROSS JOIN LATERAL (
         SELECT e.topic, e.bucket, e.id, e.mode, e.type, e.created_at FROM {schema}.events e
          WHERE e.status = 'waiting' AND e.position IS NULL AND (e.topic, e.bucket) > (lane.topic, lane.bucket)
          ORDER BY e.topic, e.bucket, e.id LIMIT 1) following
)
SELECT topic, bucket, first,
       CASE WHEN lane.topic = ANY (ARRAY(SELECT t.name FROM {schema}.topics t WHERE t.relay)) THEN 'relay' ELSE mode END AS mode,
       type, extract(epoch FROM clock_timestamp() - created_at)::double precision AS age
  FROM lane
