-- Every lane of pending commands: its oldest due row and its next row that is not due yet.
-- Suspects (crashes > 0) are not in lanes: see find_suspects.sql. They are few, and are returned by queue and type,
-- with priority null. One probe per lane, as for events: under a held snapshot a probe passes all dead entries before
-- the lane's first row, so there is only one, and the claim continues from where it ended.
-- parameters: none
-- returns: queue, type, priority, oldest (seconds that its oldest due row has waited; null: none is due),
--          next (seconds until its next row is due; null: none), and the place of its first row:
--          run_at (seconds since the epoch), id; both null for suspects
-- locks: nothing
WITH RECURSIVE lane(queue, type, priority, run_at, id) AS (
    (SELECT queue, type, priority, run_at, id FROM {schema}.commands
      WHERE status = 'pending' AND crashes = 0 ORDER BY queue, type, priority, run_at, id LIMIT 1)
    UNION ALL
    SELECT following.*
      FROM lane
     CROSS JOIN LATERAL (
         SELECT c.queue, c.type, c.priority, c.run_at, c.id FROM {schema}.commands c
          WHERE c.status = 'pending' AND c.crashes = 0
            AND (c.queue, c.type, c.priority) > (lane.queue, lane.type, lane.priority)
          ORDER BY c.queue, c.type, c.priority, c.run_at, c.id LIMIT 1) following
)
SELECT lane.queue, lane.type, lane.priority,
       CASE WHEN lane.run_at <= now()
            THEN extract(epoch FROM clock_timestamp() - lane.run_at)::double precision END AS oldest,
       (SELECT extract(epoch FROM c.run_at - clock_timestamp())::double precision FROM {schema}.commands c
         WHERE c.status = 'pending' AND c.crashes = 0 AND c.queue = lane.queue AND c.type = lane.type
           AND c.priority = lane.priority AND c.run_at > now() ORDER BY c.run_at LIMIT 1) AS next,
       date_part('epoch', lane.run_at) AS run_at, lane.id
  FROM lane
UNION ALL
SELECT c.queue, c.type, NULL,
       extract(epoch FROM clock_timestamp() - min(c.run_at) FILTER (WHERE c.run_at <= now()))
           ::double precision,
       extract(epoch FROM min(c.run_at) FILTER (WHERE c.run_at > now()) - clock_timestamp())
           ::double precision,
       NULL, NULL
  FROM {schema}.commands c WHERE c.status = 'pending' AND c.crashes > 0 GROUP BY c.queue, c.type
