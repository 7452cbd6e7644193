-- The number of ordering keys with rows in line, queue by queue; each count stops at a limit. One probe per key, however
-- long its line is.
-- parameters: $1 integer limit of each count
-- returns: queue, keys
-- locks: nothing
WITH RECURSIVE named(queue) AS (
    (SELECT queue FROM {schema}.commands
      WHERE status = 'waiting' AND needs = 0 AND ordering_key IS NOT NULL AND line_at IS NULL
      ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT following.queue
      FROM named
     CROSS JOIN LATERAL (
         SELECT c.queue FROM {schema}.commands c
          WHERE c.status = 'waiting' AND c.needs = 0 AND c.ordering_key IS NOT NULL AND c.line_at IS NULL
            AND c.queue > named.queue
          ORDER BY c.queue LIMIT 1) following
)
SELECT named.queue, counted.keys
  FROM named
 CROSS JOIN LATERAL (
     WITH RECURSIVE line(key) AS (
         (SELECT c.ordering_key FROM {schema}.commands c
           WHERE c.status = 'waiting' AND c.needs = 0 AND c.ordering_key IS NOT NULL AND c.line_at IS NULL
             AND c.queue = named.queue
           ORDER BY c.queue, c.ordering_key LIMIT 1)
         UNION ALL
         SELECT following.ordering_key
           FROM line
          CROSS JOIN LATERAL (
              SELECT c.ordering_key FROM {schema}.commands c
               WHERE c.status = 'waiting' AND c.needs = 0 AND c.ordering_key IS NOT NULL AND c.line_at IS NULL
                 AND c.queue = named.queue AND c.ordering_key > line.key
               ORDER BY c.queue, c.ordering_key LIMIT 1) following
     )
     SELECT count(*) AS keys FROM (SELECT FROM line LIMIT $1) AS few) counted
