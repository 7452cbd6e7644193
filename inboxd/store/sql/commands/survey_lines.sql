-- The types that commands with ordering keys have, queue by queue: those in line, and those that hold
-- their key and wait to run again. A probe for each queue and type.
-- parameters: none
-- returns: queue, type, oldest (seconds that its oldest due row has waited; null: none is due), next
--          (seconds until its next row is due; null: none), seen_at (seconds since the epoch)
-- locks: nothing
WITH RECURSIVE line(queue, type) AS (
    (SELECT queue, type FROM {schema}.commands
      WHERE status LIKE 'waiting' AND needs = 0 AND ordering_key IS NOT NULL AND line_at IS NULL
      ORDER BY queue, type LIMIT 1)
    UNION ALL
    SELECT following.queue, following.type
      FROM line
     CROSS JOIN LATERAL (
         SELECT c.queue, c.type FROM {schema}.commands c
          WHERE c.status LIKE 'waiting' AND c.needs = 0 AND c.ordering_key IS NOT NULL AND c.line_at IS NULL
            AND (c.queue, c.type) > (line.queue, line.type)
          ORDER BY c.queue, c.type LIMIT 1) following
), again(queue, type) AS (
    (SELECT queue, type FROM {schema}.commands WHERE status LIKE 'waiting' AND (line_at IS NULL)::integer = 0
      ORDER BY queue, type LIMIT 1)
    UNION ALL
    SELECT following.queue, following.type
      FROM again
     CROSS JOIN LATERAL (
         SELECT c.queue, c.type FROM {schema}.commands c
          WHERE c.status LIKE 'waiting' AND (c.line_at IS NULL)::integer = 0
            AND (c.queue, c.type) > (again.queue, again.type)
          ORDER BY c.queue, c.type LIMIT 1) following
)
SELECT queue, type, extract(epoch FROM clock_timestamp() - min(due))::double precision AS oldest,
       extract(epoch FROM min(later) - clock_timestamp())::double precision AS next,
       extract(epoch FROM now())::double precision AS seen_at
  FROM (
    SELECT queue, type,
           (SELECT c.run_at FROM {schema}.commands c
             WHERE c.status LIKE 'waiting' AND c.needs = 0 AND c.ordering_key IS NOT NULL AND c.line_at IS NULL
               AND c.queue = line.queue AND c.type = line.type AND c.run_at <= now()
             ORDER BY c.run_at LIMIT 1) AS due,
           (SELECT c.run_at FROM {schema}.commands c
             WHERE c.status LIKE 'waiting' AND c.needs = 0 AND c.ordering_key IS NOT NULL AND c.line_at IS NULL
               AND c.queue = line.queue AND c.type = line.type AND c.run_at > now()
             ORDER BY c.run_at LIMIT 1) AS later
      FROM line
    UNION ALL
    SELECT queue, type,
           (SELECT c.run_at FROM {schema}.commands c
             WHERE c.status LIKE 'waiting' AND (c.line_at IS NULL)::integer = 0
               AND c.queue = again.queue AND c.type = again.type AND c.run_at <= now()
             ORDER BY c.run_at LIMIT 1),
           (SELECT c.run_at FROM {schema}.commands c
             WHERE c.status LIKE 'waiting' AND (c.line_at IS NULL)::integer = 0
               AND c.queue = again.queue AND c.type = again.type AND c.run_at > now()
             ORDER BY c.run_at LIMIT 1)
      FROM again) AS seen
 GROUP BY queue, type
