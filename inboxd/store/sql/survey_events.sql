-- Every lane of pending events: its oldest due row and its next row that is not due yet.
-- Finds the lanes by a loose index scan, a probe for each, so that a lane of a million rows costs
-- what a lane of one row costs; what nobody serves is seen (and counted as unserved), never walked over.
-- parameters: none
-- returns: topic, type, oldest (seconds that its oldest due row has waited; null: none is due),
--          next (seconds until its next row is due; null: none)
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
)
SELECT lane.topic, lane.type,
       (SELECT extract(epoch FROM clock_timestamp() - e.run_at)::double precision FROM {schema}.events e
         WHERE e.status = 'pending' AND e.topic = lane.topic AND e.type = lane.type
           AND e.run_at <= now() ORDER BY e.run_at LIMIT 1) AS oldest,
       (SELECT extract(epoch FROM e.run_at - clock_timestamp())::double precision FROM {schema}.events e
         WHERE e.status = 'pending' AND e.topic = lane.topic AND e.type = lane.type
           AND e.run_at > now() ORDER BY e.run_at LIMIT 1) AS next
  FROM lane
