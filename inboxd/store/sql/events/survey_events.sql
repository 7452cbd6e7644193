-- Every lane of pending events: its oldest due row and its next row that is not due yet.
-- A loose index scan finds the lanes, with one probe each, so that a lane of a million rows costs as much as a lane of
-- one row; unhandled rows are seen (and counted as unhandled), but not walked over.
-- Under a held snapshot a probe passes all dead entries before the lane's first row, so there is only one, and the claim
-- continues from where it ended.
-- parameters: none
-- returns: topic, type, oldest (seconds that its oldest due row has waited; null: none is due),
--          next (seconds until its next row is due; null: none), and the place of its first row:
--          run_at (seconds since the epoch), id
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
)
SELECT lane.topic, lane.type,
       CASE WHEN lane.run_at <= now()
            THEN extract(epoch FROM clock_timestamp() - lane.run_at)::double precision END AS oldest,
       (SELECT extract(epoch FROM e.run_at - clock_timestamp())::double precision FROM {schema}.events e
         WHERE e.status = 'pending' AND e.topic = lane.topic AND e.type = lane.type
           AND e.run_at > now() ORDER BY e.run_at LIMIT 1) AS next,
       date_part('epoch', lane.run_at) AS run_at, lane.id
  FROM lane
