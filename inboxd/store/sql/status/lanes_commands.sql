-- The unsettled commands, lane by lane; each count stops at a limit, so that a lane of a million rows costs as much as a
-- lane of ten thousand. Loose index scans find lanes, failed types and waiting rows, which are counted from their first
-- row on, due ones first: dead entries before it, under a held snapshot, are passed once. Running rows and suspects
-- (crashes > 0) are few, and have their own indexes.
-- parameters: $1 integer limit of each count, $2 integer limit of the dead letters of each type: each of them is read, for
--             its queue
-- returns: queue, type, priority (text; empty where rows are not counted by it), state (pending; suspect; in_line:
--          in the line of an ordering key; again: it holds its line and waits to run again; unmet: it waits for
--          other rows; running; failed), rows, due, oldest (seconds that the oldest due row has waited; null: none is
--          due), paused (the due rows are), breaker (an open one that they need; null: none)
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
), line(queue, type, run_at, id) AS (
    (SELECT queue, type, run_at, id FROM {schema}.commands
      WHERE status LIKE 'waiting' AND needs = 0 AND ordering_key IS NOT NULL AND line_at IS NULL
      ORDER BY queue, type, run_at, id LIMIT 1)
    UNION ALL
    SELECT following.*
      FROM line
     CROSS JOIN LATERAL (
         SELECT c.queue, c.type, c.run_at, c.id FROM {schema}.commands c
          WHERE c.status LIKE 'waiting' AND c.needs = 0 AND c.ordering_key IS NOT NULL AND c.line_at IS NULL
            AND (c.queue, c.type) > (line.queue, line.type)
          ORDER BY c.queue, c.type, c.run_at, c.id LIMIT 1) following
), again(queue, type, run_at, id) AS (
    (SELECT queue, type, run_at, id FROM {schema}.commands
      WHERE status LIKE 'waiting' AND (line_at IS NULL)::integer = 0
      ORDER BY queue, type, run_at, id LIMIT 1)
    UNION ALL
    SELECT following.*
      FROM again
     CROSS JOIN LATERAL (
         SELECT c.queue, c.type, c.run_at, c.id FROM {schema}.commands c
          WHERE c.status LIKE 'waiting' AND (c.line_at IS NULL)::integer = 0
            AND (c.queue, c.type) > (again.queue, again.type)
          ORDER BY c.queue, c.type, c.run_at, c.id LIMIT 1) following
), unmet(queue, type) AS (
    (SELECT queue, type FROM {schema}.commands
      WHERE status = 'waiting' AND needs >= 1 ORDER BY queue, type LIMIT 1)
    UNION ALL
    SELECT following.*
      FROM unmet
     CROSS JOIN LATERAL (
         SELECT c.queue, c.type FROM {schema}.commands c
          WHERE c.status = 'waiting' AND c.needs >= 1 AND (c.queue, c.type) > (unmet.queue, unmet.type)
          ORDER BY c.queue, c.type LIMIT 1) following
), failed(type) AS (
    (SELECT type FROM {schema}.commands WHERE status = 'failed' ORDER BY type LIMIT 1)
    UNION ALL
    SELECT following.type
      FROM failed
     CROSS JOIN LATERAL (
         SELECT c.type FROM {schema}.commands c
          WHERE c.status = 'failed' AND c.type > failed.type ORDER BY c.type LIMIT 1) following
), shut(name, uses) AS MATERIALIZED (
    SELECT b.name, b.uses FROM {schema}.breakers b WHERE b.mode = 'open' OR b.mode = 'auto' AND b.state <> 'closed'
), found(queue, type, priority, state, rows, due, run_at) AS (
    SELECT lane.queue, lane.type, lane.priority::text, 'pending', counted.*, lane.run_at
      FROM lane
     CROSS JOIN LATERAL (
         SELECT count(*), count(*) FILTER (WHERE few.run_at <= now())
           FROM (SELECT c.run_at FROM {schema}.commands c
                  WHERE c.status = 'pending' AND c.crashes = 0 AND c.queue = lane.queue AND c.type = lane.type
                    AND c.priority = lane.priority AND (c.run_at, c.id) >= (lane.run_at, lane.id)
                  ORDER BY c.run_at, c.id LIMIT $1) AS few) counted
    UNION ALL
    SELECT line.queue, line.type, '', 'in_line', counted.*, line.run_at
      FROM line
     CROSS JOIN LATERAL (
         SELECT count(*), count(*) FILTER (WHERE few.run_at <= now())
           FROM (SELECT c.run_at FROM {schema}.commands c
                  WHERE c.status LIKE 'waiting' AND c.needs = 0 AND c.ordering_key IS NOT NULL AND c.line_at IS NULL
                    AND c.queue = line.queue AND c.type = line.type AND (c.run_at, c.id) >= (line.run_at, line.id)
                  ORDER BY c.run_at, c.id LIMIT $1) AS few) counted
    UNION ALL
    SELECT again.queue, again.type, '', 'again', counted.*, again.run_at
      FROM again
     CROSS JOIN LATERAL (
         SELECT count(*), count(*) FILTER (WHERE few.run_at <= now())
           FROM (SELECT c.run_at FROM {schema}.commands c
                  WHERE c.status LIKE 'waiting' AND (c.line_at IS NULL)::integer = 0
                    AND c.queue = again.queue AND c.type = again.type AND (c.run_at, c.id) >= (again.run_at, again.id)
                  ORDER BY c.run_at, c.id LIMIT $1) AS few) counted
    UNION ALL
    SELECT few.queue, few.type, '', 'suspect', count(*), count(*) FILTER (WHERE few.run_at <= now()), min(few.run_at)
      FROM (SELECT queue, type, run_at FROM {schema}.commands
             WHERE status = 'pending' AND crashes > 0 ORDER BY run_at, id LIMIT $1) AS few
     GROUP BY few.queue, few.type
    UNION ALL
    SELECT unmet.queue, unmet.type, '', 'unmet', counted.*, 0, NULL
      FROM unmet
     CROSS JOIN LATERAL (
         SELECT count(*) FROM (SELECT FROM {schema}.commands c
                                WHERE c.status = 'waiting' AND c.needs >= 1
                                  AND c.queue = unmet.queue AND c.type = unmet.type LIMIT $1) AS few) counted
    UNION ALL
    SELECT few.queue, few.type, '', 'running', count(*), 0, NULL
      FROM (SELECT queue, type FROM {schema}.commands WHERE status = 'running' LIMIT $1) AS few
     GROUP BY few.queue, few.type
    UNION ALL
    SELECT few.queue, failed.type, '', 'failed', count(*), 0, NULL
      FROM failed
     CROSS JOIN LATERAL (
         SELECT c.queue FROM {schema}.commands c
          WHERE c.status = 'failed' AND c.type = failed.type LIMIT $2) few
     GROUP BY few.queue, failed.type
)
SELECT queue, type, priority, state, rows, due,
       CASE WHEN run_at <= now() THEN extract(epoch FROM clock_timestamp() - run_at)::double precision END AS oldest,
       run_at <= now()
       AND EXISTS (SELECT FROM {schema}.controls p
                    WHERE p.kind = 'queue' AND p.name = queue OR p.kind = 'type' AND p.name = type) AS paused,
       (SELECT min(shut.name) FROM shut WHERE shut.uses && ARRAY['command ' || type, 'queue ' || queue]) AS breaker
  FROM found ORDER BY queue, type, priority
