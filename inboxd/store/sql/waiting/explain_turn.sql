-- The due commands that are claimed before a command that nothing holds, if all workers that serve it serve them too; by
-- the order of claims (inboxd/model/priority_order.py). Suspects come first; then commands with a smaller level: a queue's
-- priority and, in queues without limits over all workers, the command's own. Paused commands, those that need an open
-- breaker, and lines whose key is held are left out.
-- parameters: $1 bigint id, queues that have settings: $2 text[] names, $3 integer[] priorities, $4 boolean[] limits
--             over all workers, $5 integer[] how many of a key run at once, $6 boolean[] a dead letter holds its key;
--             $7 integer most commands, and lanes, to look at
-- returns: rows (how many, at most $7), queue (of the first); no row if it no longer waits
-- locks: nothing
WITH RECURSIVE known AS MATERIALIZED (
    SELECT k.* FROM unnest($2::text[], $3::integer[], $4::boolean[], $5::integer[], $6::boolean[])
                    AS k(queue, priority, limited, at_once, blocking)
), own AS MATERIALIZED (
    SELECT c.queue, c.type, c.priority, c.status,
           coalesce(k.priority, 0) + CASE WHEN coalesce(k.limited, false) OR c.status = 'waiting'
                                          THEN 0 ELSE c.priority END AS level,
           coalesce(k.limited, false) AND c.status = 'pending' AS by_lanes, now() AS now
      FROM {schema}.commands c LEFT JOIN known k ON k.queue = c.queue
     WHERE c.id = $1 AND c.status <> 'running' AND c.crashes = 0
), worker AS MATERIALIZED (
    SELECT w.commands, w.queues FROM own JOIN {schema}.workers w
        ON w.state = 'running' AND own.type = ANY (w.commands)
       AND (cardinality(w.queues) = 0 OR own.queue = ANY (w.queues))
), lane(queue, type, priority, n) AS (
    (SELECT c.queue, c.type, c.priority, 1 FROM {schema}.commands c
      WHERE c.status = 'pending' AND c.crashes = 0 ORDER BY c.queue, c.type, c.priority LIMIT 1)
    UNION ALL
    SELECT following.queue, following.type, following.priority, lane.n + 1
      FROM lane
     CROSS JOIN LATERAL (
         SELECT c.queue, c.type, c.priority FROM {schema}.commands c
          WHERE c.status = 'pending' AND c.crashes = 0
            AND (c.queue, c.type, c.priority) > (lane.queue, lane.type, lane.priority)
          ORDER BY c.queue, c.type, c.priority LIMIT 1) AS following
     WHERE lane.n < $7
), line(queue, type, n) AS (
    (SELECT c.queue, c.type, 1 FROM {schema}.commands c
      WHERE c.status LIKE 'waiting' AND c.needs = 0 AND c.ordering_key IS NOT NULL AND c.line_at IS NULL
      ORDER BY c.queue, c.type LIMIT 1)
    UNION ALL
    SELECT following.queue, following.type, line.n + 1
      FROM line
     CROSS JOIN LATERAL (
         SELECT c.queue, c.type FROM {schema}.commands c
          WHERE c.status LIKE 'waiting' AND c.needs = 0 AND c.ordering_key IS NOT NULL AND c.line_at IS NULL
            AND (c.queue, c.type) > (line.queue, line.type)
          ORDER BY c.queue, c.type LIMIT 1) AS following
     WHERE line.n < $7
), again(queue, type, n) AS (
    (SELECT c.queue, c.type, 1 FROM {schema}.commands c
      WHERE c.status LIKE 'waiting' AND (c.line_at IS NULL)::integer = 0 ORDER BY c.queue, c.type LIMIT 1)
    UNION ALL
    SELECT following.queue, following.type, again.n + 1
      FROM again
     CROSS JOIN LATERAL (
         SELECT c.queue, c.type FROM {schema}.commands c
          WHERE c.status LIKE 'waiting' AND (c.line_at IS NULL)::integer = 0
            AND (c.queue, c.type) > (again.queue, again.type)
          ORDER BY c.queue, c.type LIMIT 1) AS following
     WHERE again.n < $7
), place AS (
    SELECT each.kind, each.queue, each.type, each.priority, k.at_once, k.blocking,
           CASE WHEN each.kind = 'suspect' THEN NULL
                ELSE coalesce(k.priority, 0) + CASE WHEN coalesce(k.limited, false) OR each.kind <> 'lane'
                                                    THEN 0 ELSE each.priority END END AS level
      FROM (SELECT 'lane' AS kind, lane.queue, lane.type, lane.priority FROM lane
            UNION ALL SELECT 'line', line.queue, line.type, NULL FROM line
            UNION ALL SELECT 'again', again.queue, again.type, NULL FROM again
            UNION ALL
            (SELECT DISTINCT 'suspect', s.queue, s.type, NULL::smallint FROM (
                SELECT c.queue, c.type FROM {schema}.commands c
                 WHERE c.status = 'pending' AND c.crashes > 0 AND c.run_at <= now()
                 ORDER BY c.run_at, c.id LIMIT $7) AS s)) AS each
      LEFT JOIN known k ON k.queue = each.queue
), before AS MATERIALIZED (
    SELECT place.*, row_number() OVER (ORDER BY place.level NULLS FIRST, place.priority, place.queue, place.type) AS n
      FROM own CROSS JOIN place
     WHERE (place.level IS NULL OR place.level < own.level
            OR own.by_lanes AND place.kind = 'lane' AND place.queue = own.queue AND place.priority < own.priority)
       AND EXISTS (SELECT FROM worker)
       AND NOT EXISTS (SELECT FROM worker w
                        WHERE NOT (place.type = ANY (w.commands)
                                   AND (cardinality(w.queues) = 0 OR place.queue = ANY (w.queues))))
       AND NOT EXISTS (SELECT FROM {schema}.controls k
                        WHERE (k.kind, k.name) IN (('queue', place.queue), ('type', place.type)))
       AND NOT EXISTS (SELECT FROM {schema}.endpoints e WHERE 'webhooks.' || e.name = place.queue AND NOT e.enabled)
       AND NOT EXISTS (SELECT FROM {schema}.breakers b
                        WHERE b.uses && ARRAY['command ' || place.type, 'queue ' || place.queue]
                          AND (b.mode = 'open' OR b.mode = 'auto' AND b.state <> 'closed'))
), due AS (
    SELECT before.queue, before.n
      FROM own CROSS JOIN before
     CROSS JOIN LATERAL (
         (SELECT FROM {schema}.commands c
           WHERE before.kind = 'lane' AND c.status = 'pending' AND c.crashes = 0
             AND c.queue = before.queue AND c.type = before.type AND c.priority = before.priority
             AND c.run_at <= own.now ORDER BY c.run_at, c.id LIMIT $7)
         UNION ALL
         (SELECT FROM {schema}.commands c
           WHERE before.kind = 'suspect' AND c.status = 'pending' AND c.crashes > 0
             AND c.queue = before.queue AND c.type = before.type AND c.run_at <= own.now LIMIT $7)
         UNION ALL
         (SELECT FROM {schema}.commands c
           WHERE before.kind = 'again' AND c.status LIKE 'waiting' AND (c.line_at IS NULL)::integer = 0
             AND c.crashes = 0 AND c.queue = before.queue AND c.type = before.type AND c.run_at <= own.now
           ORDER BY c.run_at, c.id LIMIT $7)
         UNION ALL
         (SELECT FROM (SELECT c.ordering_key FROM {schema}.commands c
                        WHERE before.kind = 'line' AND c.status LIKE 'waiting' AND c.needs = 0
                          AND c.ordering_key IS NOT NULL AND c.line_at IS NULL
                          AND c.queue = before.queue AND c.type = before.type AND c.run_at <= own.now
                        ORDER BY c.run_at, c.id LIMIT $7) AS c
           WHERE before.at_once > 1
              OR NOT EXISTS (SELECT FROM {schema}.commands h
                              WHERE h.queue = before.queue AND h.ordering_key = c.ordering_key
                                AND h.line_at IS NOT NULL
                                AND h.status >= CASE WHEN before.blocking IS NOT FALSE
                                                     THEN 'failed' ELSE 'running' END))) AS found
     ORDER BY before.n LIMIT $7
)
SELECT count(due.n) AS rows, (array_agg(due.queue ORDER BY due.n))[1] AS queue
  FROM own LEFT JOIN due ON true GROUP BY own.queue
