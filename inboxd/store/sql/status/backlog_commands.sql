-- What is unsettled of the commands: pending rows lane by lane, those in the lines of ordering keys and
-- those that wait for other rows by queue and type, dead letters by type, running ones. A lane is counted
-- from its first row on: what is dead before it, under a held snapshot, is passed once.
-- parameters: $1 integer: count no further than this
-- returns: queue, type, priority (each empty where rows are not counted by it), state, rows, age (seconds that
--          the oldest due row has waited; null: none, or the lane is paused: nobody is late)
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
), failed(type) AS (
    (SELECT type FROM {schema}.commands WHERE status = 'failed' ORDER BY type LIMIT 1)
    UNION ALL
    SELECT (SELECT c.type FROM {schema}.commands c WHERE c.status = 'failed' AND c.type > failed.type
             ORDER BY c.type LIMIT 1)
      FROM failed WHERE failed.type IS NOT NULL
), line(queue, type) AS (
    (SELECT queue, type FROM {schema}.commands
      WHERE status LIKE 'waiting' AND needs = 0 AND ordering_key IS NOT NULL AND line_at IS NULL
      ORDER BY queue, type LIMIT 1)
    UNION ALL
    SELECT following.queue, following.type
      FROM line
     CROSS JOIN LATERAL (
         SELECT c.queue, c.type FROM {schema}.commands c
          WHERE status LIKE 'waiting' AND needs = 0 AND ordering_key IS NOT NULL AND line_at IS NULL
            AND (c.queue, c.type) > (line.queue, line.type)
          ORDER BY c.queue, c.type LIMIT 1) following
), again(queue, type) AS (
    (SELECT queue, type FROM {schema}.commands
      WHERE status LIKE 'waiting' AND (line_at IS NULL)::integer = 0
      ORDER BY queue, type LIMIT 1)
    UNION ALL
    SELECT following.queue, following.type
      FROM again
     CROSS JOIN LATERAL (
         SELECT c.queue, c.type FROM {schema}.commands c
          WHERE status LIKE 'waiting' AND (line_at IS NULL)::integer = 0
            AND (c.queue, c.type) > (again.queue, again.type)
          ORDER BY c.queue, c.type LIMIT 1) following
), unmet(queue, type) AS (
    (SELECT queue, type FROM {schema}.commands
      WHERE status = 'waiting' AND needs >= 1
      ORDER BY queue, type LIMIT 1)
    UNION ALL
    SELECT following.queue, following.type
      FROM unmet
     CROSS JOIN LATERAL (
         SELECT c.queue, c.type FROM {schema}.commands c
          WHERE status = 'waiting' AND needs >= 1
            AND (c.queue, c.type) > (unmet.queue, unmet.type)
          ORDER BY c.queue, c.type LIMIT 1) following
)
SELECT lane.queue, lane.type, lane.priority::text, 'pending',
       (SELECT count(*) FROM (SELECT 1 FROM {schema}.commands c
         WHERE c.status = 'pending' AND c.crashes = 0 AND c.queue = lane.queue AND c.type = lane.type
           AND c.priority = lane.priority AND (c.run_at, c.id) >= (lane.run_at, lane.id)
         LIMIT $1) AS counted),
       CASE WHEN lane.run_at <= now()
             AND NOT EXISTS (SELECT FROM {schema}.controls p
                 WHERE p.kind = 'queue' AND p.name = lane.queue OR p.kind = 'type' AND p.name = lane.type)
            THEN extract(epoch FROM clock_timestamp() - lane.run_at)::double precision END
  FROM lane
UNION ALL
SELECT '', failed.type, '', 'failed',
       (SELECT count(*) FROM (SELECT 1 FROM {schema}.commands c
         WHERE c.status = 'failed' AND c.type = failed.type LIMIT $1) AS counted),
       NULL
  FROM failed WHERE failed.type IS NOT NULL
UNION ALL
SELECT '', '', '', 'suspect',
       (SELECT count(*) FROM (SELECT 1 FROM {schema}.commands c
         WHERE c.status = 'pending' AND c.crashes > 0 LIMIT $1) AS counted),
       NULL
UNION ALL
SELECT '', '', '', 'running',
       (SELECT count(*) FROM (SELECT 1 FROM {schema}.commands c WHERE c.status = 'running' LIMIT $1)
           AS counted),
       NULL
UNION ALL
SELECT line.queue, line.type, '', 'in_line',
       (SELECT count(*) FROM (SELECT 1 FROM {schema}.commands c
         WHERE c.status LIKE 'waiting' AND c.needs = 0 AND c.ordering_key IS NOT NULL AND c.line_at IS NULL
           AND c.queue = line.queue AND c.type = line.type
         ORDER BY c.run_at, c.id LIMIT $1) AS counted),
       (SELECT extract(epoch FROM clock_timestamp() - c.run_at)::double precision FROM {schema}.commands c
         WHERE c.status LIKE 'waiting' AND c.needs = 0 AND c.ordering_key IS NOT NULL AND c.line_at IS NULL
           AND c.queue = line.queue AND c.type = line.type AND c.run_at <= now()
           AND NOT EXISTS (SELECT FROM {schema}.controls p
                 WHERE p.kind = 'queue' AND p.name = line.queue OR p.kind = 'type' AND p.name = line.type)
         ORDER BY c.run_at LIMIT 1)
  FROM line
UNION ALL
SELECT again.queue, again.type, '', 'again',
       (SELECT count(*) FROM (SELECT 1 FROM {schema}.commands c
         WHERE c.status LIKE 'waiting' AND (c.line_at IS NULL)::integer = 0
           AND c.queue = again.queue AND c.type = again.type
         ORDER BY c.run_at, c.id LIMIT $1) AS counted),
       (SELECT extract(epoch FROM clock_timestamp() - c.run_at)::double precision FROM {schema}.commands c
         WHERE c.status LIKE 'waiting' AND (c.line_at IS NULL)::integer = 0
           AND c.queue = again.queue AND c.type = again.type AND c.run_at <= now()
           AND NOT EXISTS (SELECT FROM {schema}.controls p
                 WHERE p.kind = 'queue' AND p.name = again.queue OR p.kind = 'type' AND p.name = again.type)
         ORDER BY c.run_at LIMIT 1)
  FROM again
UNION ALL
SELECT unmet.queue, unmet.type, '', 'unmet',
       (SELECT count(*) FROM (SELECT 1 FROM {schema}.commands c
         WHERE c.status = 'waiting' AND c.needs >= 1
           AND c.queue = unmet.queue AND c.type = unmet.type LIMIT $1) AS counted),
       NULL
  FROM unmet
