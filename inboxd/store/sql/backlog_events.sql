-- What is unsettled of the events: pending rows lane by lane, those that nobody handles as kept; dead
-- letters by type.
-- parameters: $1 integer: count no further than this
-- returns: kind, lane, status, rows, age (seconds that the oldest due row has waited; null: none)
-- locks: nothing
WITH RECURSIVE lane(topic, type) AS (
    (SELECT topic, type FROM {schema}.events WHERE status = 'pending' ORDER BY topic, type LIMIT 1)
    UNION ALL
    SELECT following.topic, following.type
      FROM lane
     CROSS JOIN LATERAL (
         SELECT e.topic, e.type FROM {schema}.events e
          WHERE e.status = 'pending' AND (e.topic, e.type) > (lane.topic, lane.type)
          ORDER BY e.topic, e.type LIMIT 1) following
), failed(type) AS (
    (SELECT type FROM {schema}.events WHERE status = 'failed' ORDER BY type LIMIT 1)
    UNION ALL
    SELECT (SELECT e.type FROM {schema}.events e WHERE e.status = 'failed' AND e.type > failed.type
             ORDER BY e.type LIMIT 1)
      FROM failed WHERE failed.type IS NOT NULL
)
SELECT 'event', lane.topic || '/' || lane.type,
       CASE WHEN {schema}.is_unhandled(lane.topic, lane.type) THEN 'kept' ELSE 'pending' END,
       (SELECT count(*) FROM (SELECT 1 FROM {schema}.events e
         WHERE e.status = 'pending' AND e.topic = lane.topic AND e.type = lane.type LIMIT $1) AS counted),
       (SELECT extract(epoch FROM clock_timestamp() - e.run_at)::double precision FROM {schema}.events e
         WHERE e.status = 'pending' AND e.topic = lane.topic AND e.type = lane.type
           AND e.run_at <= now() ORDER BY e.run_at LIMIT 1)
  FROM lane
UNION ALL
SELECT 'event', failed.type, 'failed',
       (SELECT count(*) FROM (SELECT 1 FROM {schema}.events e
         WHERE e.status = 'failed' AND e.type = failed.type LIMIT $1) AS counted),
       NULL
  FROM failed WHERE failed.type IS NOT NULL
