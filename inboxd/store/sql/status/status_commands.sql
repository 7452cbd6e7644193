-- What commands each queue and type has, counted no further than a limit: a lane of a million rows
-- costs what a lane of ten thousand costs. Lanes, failed types and what waits are found by loose index
-- scans; running rows and suspects (crashes > 0) are few, and have an index of their own.
-- parameters: $1 integer limit of each count
-- returns: queue, type, pending, due, oldest (seconds that the oldest due row has waited), running,
--          failed, in_line (how many of the pending ones stand in the line of an ordering key, or hold it
--          and wait to run again), unmet (rows that wait for other rows)
-- locks: nothing
WITH RECURSIVE lane(queue, type, priority) AS (
    (SELECT queue, type, priority FROM {schema}.commands
      WHERE status = 'pending' AND crashes = 0 ORDER BY queue, type, priority LIMIT 1)
    UNION ALL
    SELECT following.queue, following.type, following.priority
      FROM lane
     CROSS JOIN LATERAL (
         SELECT c.queue, c.type, c.priority FROM {schema}.commands c
          WHERE c.status = 'pending' AND c.crashes = 0
            AND (c.queue, c.type, c.priority) > (lane.queue, lane.type, lane.priority)
          ORDER BY c.queue, c.type, c.priority LIMIT 1) following
), broken(type) AS (
    (SELECT type FROM {schema}.commands WHERE status = 'failed' ORDER BY type LIMIT 1)
    UNION ALL
    SELECT following.type
      FROM broken
     CROSS JOIN LATERAL (SELECT c.type FROM {schema}.commands c
                          WHERE c.status = 'failed' AND c.type > broken.type
                          ORDER BY c.type LIMIT 1) following
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
), counted(queue, type, pending, due, oldest, running, failed, in_line, unmet) AS (
    SELECT lane.queue, lane.type, pending.count, due.count, due.oldest, 0, 0, 0, 0
      FROM lane
     CROSS JOIN LATERAL (
         SELECT count(*) FROM (SELECT FROM {schema}.commands c
                                WHERE c.status = 'pending' AND c.crashes = 0 AND c.queue = lane.queue
                                  AND c.type = lane.type AND c.priority = lane.priority
                                LIMIT $1) AS few) pending
     CROSS JOIN LATERAL (
         SELECT count(*), extract(epoch FROM clock_timestamp() - min(run_at))::double precision AS oldest
           FROM (SELECT c.run_at FROM {schema}.commands c
                  WHERE c.status = 'pending' AND c.crashes = 0 AND c.queue = lane.queue
                    AND c.type = lane.type AND c.priority = lane.priority
                    AND c.run_at <= now() ORDER BY c.run_at LIMIT $1) AS few) due
    UNION ALL
    SELECT queue, type, count(*), count(*) FILTER (WHERE run_at <= now()),
           extract(epoch FROM clock_timestamp() - min(run_at) FILTER (WHERE run_at <= now()))::double precision,
           0, 0, 0, 0
      FROM (SELECT queue, type, run_at FROM {schema}.commands
             WHERE status = 'pending' AND crashes > 0 LIMIT $1) AS suspect
     GROUP BY queue, type
    UNION ALL
    SELECT queue, type, 0, 0, NULL, count(*), 0, 0, 0
      FROM (SELECT queue, type FROM {schema}.commands WHERE status = 'running' LIMIT $1) AS busy
     GROUP BY queue, type
    UNION ALL
    SELECT dead.queue, dead.type, 0, 0, NULL, 0, count(*), 0, 0
      FROM broken
     CROSS JOIN LATERAL (SELECT c.queue, c.type FROM {schema}.commands c
                          WHERE c.status = 'failed' AND c.type = broken.type LIMIT $1) dead
     GROUP BY dead.queue, dead.type
    UNION ALL
    SELECT line.queue, line.type, standing.count, due.count, due.oldest, 0, 0, standing.count, 0
      FROM line
     CROSS JOIN LATERAL (
         SELECT count(*) FROM (SELECT FROM {schema}.commands c
                                WHERE c.status LIKE 'waiting' AND c.needs = 0 AND c.ordering_key IS NOT NULL AND c.line_at IS NULL
                                  AND c.queue = line.queue AND c.type = line.type
                                ORDER BY c.run_at, c.id LIMIT $1) AS few) standing
     CROSS JOIN LATERAL (
         SELECT count(*), extract(epoch FROM clock_timestamp() - min(run_at))::double precision AS oldest
           FROM (SELECT c.run_at FROM {schema}.commands c
                  WHERE c.status LIKE 'waiting' AND c.needs = 0 AND c.ordering_key IS NOT NULL AND c.line_at IS NULL
                    AND c.queue = line.queue AND c.type = line.type AND c.run_at <= now()
                  ORDER BY c.run_at LIMIT $1) AS few) due
    UNION ALL
    SELECT again.queue, again.type, standing.count, due.count, due.oldest, 0, 0, standing.count, 0
      FROM again
     CROSS JOIN LATERAL (
         SELECT count(*) FROM (SELECT FROM {schema}.commands c
                                WHERE c.status LIKE 'waiting' AND (c.line_at IS NULL)::integer = 0
                                  AND c.queue = again.queue AND c.type = again.type
                                ORDER BY c.run_at, c.id LIMIT $1) AS few) standing
     CROSS JOIN LATERAL (
         SELECT count(*), extract(epoch FROM clock_timestamp() - min(run_at))::double precision AS oldest
           FROM (SELECT c.run_at FROM {schema}.commands c
                  WHERE c.status LIKE 'waiting' AND (c.line_at IS NULL)::integer = 0
                    AND c.queue = again.queue AND c.type = again.type AND c.run_at <= now()
                  ORDER BY c.run_at LIMIT $1) AS few) due
    UNION ALL
    SELECT queue, type, 0, 0, NULL, 0, 0, 0,
           (SELECT count(*) FROM (SELECT FROM {schema}.commands c
                                   WHERE status = 'waiting' AND needs >= 1 AND c.queue = unmet.queue AND c.type = unmet.type
                                   LIMIT $1) AS few)
      FROM unmet
)
SELECT queue, type, sum(pending)::bigint AS pending, sum(due)::bigint AS due, max(oldest) AS oldest,
       sum(running)::bigint AS running, sum(failed)::bigint AS failed,
       sum(in_line)::bigint AS in_line, sum(unmet)::bigint AS unmet
  FROM counted GROUP BY queue, type ORDER BY queue, type
