-- What is unsettled of the events: pending rows lane by lane, those that no living worker handles as kept; dead
-- letters by type. A lane is counted from its first row on: what is dead before it, under a held snapshot, is passed once.
-- parameters: $1 integer: count no further than this
-- returns: topic, type, state, rows, age (seconds that the oldest due row has waited; null: none, or the lane
--          is paused: nobody is late)
-- locks: nothing
WITH RECURSIVE lane(topic, type, run_at, id) AS (
    (SELECT topic, type, run_at, id FROM {schema}.events
      WHERE status = 'pending' ORDER BY topic, type, run_at, id LIMIT 1)
    UNION ALL
    SELECT following.*
      FROM lane
     CROSS JOIN LATERAL (
         SELECT e.topic, e.type, e.run_at, e.id FROM {schema}.events e
          WHERE e.status = 'pending' AND (e.topic, e.type) > (lane.topic, lane.type)
          ORDER BY e.topic, e.type, e.run_at, e.id LIMIT 1) following
), failed(type) AS (
    (SELECT type FROM {schema}.events WHERE status = 'failed' ORDER BY type LIMIT 1)
    UNION ALL
    SELECT (SELECT e.type FROM {schema}.events e WHERE e.status = 'failed' AND e.type > failed.type
             ORDER BY e.type LIMIT 1)
      FROM failed WHERE failed.type IS NOT NULL
)
SELECT lane.topic, lane.type,
       CASE WHEN {schema}.is_unhandled(lane.topic, lane.type) THEN 'kept' ELSE 'pending' END,
       (SELECT count(*) FROM (SELECT 1 FROM {schema}.events e
         WHERE e.status = 'pending' AND e.topic = lane.topic AND e.type = lane.type
           AND (e.run_at, e.id) >= (lane.run_at, lane.id) LIMIT $1) AS counted),
       CASE WHEN lane.run_at <= now()
             AND NOT EXISTS (SELECT FROM {schema}.controls p
                 WHERE p.kind = 'topic' AND p.name = lane.topic OR p.kind = 'type' AND p.name = lane.type)
            THEN extract(epoch FROM clock_timestamp() - lane.run_at)::double precision END
  FROM lane
UNION ALL
SELECT '', failed.type, 'failed',
       (SELECT count(*) FROM (SELECT 1 FROM {schema}.events e
         WHERE e.status = 'failed' AND e.type = failed.type LIMIT $1) AS counted),
       NULL
  FROM failed WHERE failed.type IS NOT NULL
