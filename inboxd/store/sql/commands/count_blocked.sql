-- The number of ordering keys, queue by queue, that a dead letter holds, or a command that waits for its retry, while
-- others stand behind it. Only the first $1 holders of a queue and kind are looked at.
-- parameters: $1 integer holders of each queue and kind, $2 text[] queues whose dead letters hold no key,
--             $3 text[] queues in which no command holds its key
-- returns: queue, held_by (dead letter, retry), keys, oldest (seconds that the longest due one behind has waited,
--          over all these keys)
-- locks: nothing
WITH RECURSIVE dead(queue) AS (
    (SELECT queue FROM {schema}.commands WHERE status LIKE 'failed' AND (line_at IS NULL)::integer = 0
      ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT following.queue
      FROM dead
     CROSS JOIN LATERAL (
         SELECT c.queue FROM {schema}.commands c
          WHERE c.status LIKE 'failed' AND (c.line_at IS NULL)::integer = 0 AND c.queue > dead.queue
          ORDER BY c.queue LIMIT 1) following
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
), holder(queue, held_by, key) AS (
    SELECT dead.queue, 'dead letter', first.ordering_key
      FROM dead
     CROSS JOIN LATERAL (
         SELECT c.ordering_key FROM {schema}.commands c
          WHERE c.status LIKE 'failed' AND (c.line_at IS NULL)::integer = 0 AND c.queue = dead.queue
          ORDER BY c.queue, c.line_at, c.id LIMIT $1) first
     WHERE dead.queue <> ALL ($2::text[])
    UNION ALL
    SELECT again.queue, 'retry', first.ordering_key
      FROM again
     CROSS JOIN LATERAL (
         SELECT c.ordering_key FROM {schema}.commands c
          WHERE c.status LIKE 'waiting' AND (c.line_at IS NULL)::integer = 0 AND c.queue = again.queue
            AND c.type = again.type AND c.run_at > now()
          ORDER BY c.run_at, c.id LIMIT $1) first
     WHERE again.queue <> ALL ($3::text[])
)
SELECT holder.queue, holder.held_by, count(DISTINCT holder.key) AS keys,
       extract(epoch FROM clock_timestamp() - min(behind.run_at))::double precision AS oldest
  FROM holder
 CROSS JOIN LATERAL (
     SELECT c.run_at FROM {schema}.commands c
      WHERE c.status = 'waiting' AND c.needs = 0 AND c.ordering_key IS NOT NULL AND c.line_at IS NULL
        AND c.queue = holder.queue AND c.ordering_key = holder.key AND c.run_at <= now()
      ORDER BY c.run_at LIMIT 1) behind
 GROUP BY holder.queue, holder.held_by ORDER BY holder.queue, holder.held_by
