-- The ordering keys of a queue that are held while other commands wait behind, as in count_blocked.sql: the holders,
-- and the number of commands behind each; the key whose commands have waited longest comes first.
-- parameters: $1 text queue, $2 integer keys, $3 integer holders of each kind that are looked at,
--             $4 boolean: dead letters hold their keys, $5 boolean: retries do,
--             $6 integer: the most commands behind a key that are counted
-- returns: key, held_by (dead letter, retry), id, command_id, type, status, attempts, next_at (null: it does not run
--          again by itself), behind, oldest (seconds that the first one behind has been due)
-- locks: nothing
WITH RECURSIVE again(type) AS (
    (SELECT c.type FROM {schema}.commands c
      WHERE c.status LIKE 'waiting' AND (c.line_at IS NULL)::integer = 0 AND c.queue = $1
      ORDER BY c.queue, c.type LIMIT 1)
    UNION ALL
    SELECT following.type
      FROM again
     CROSS JOIN LATERAL (
         SELECT c.type FROM {schema}.commands c
          WHERE c.status LIKE 'waiting' AND (c.line_at IS NULL)::integer = 0 AND c.queue = $1 AND c.type > again.type
          ORDER BY c.queue, c.type LIMIT 1) following
), holder(held_by, key, id) AS (
    (SELECT 'dead letter', c.ordering_key, c.id FROM {schema}.commands c
      WHERE $4::boolean AND c.status LIKE 'failed' AND (c.line_at IS NULL)::integer = 0 AND c.queue = $1
      ORDER BY c.queue, c.line_at, c.id LIMIT $3)
    UNION ALL
    SELECT 'retry', first.ordering_key, first.id
      FROM again
     CROSS JOIN LATERAL (
         SELECT c.ordering_key, c.id FROM {schema}.commands c
          WHERE $5::boolean AND c.status LIKE 'waiting' AND (c.line_at IS NULL)::integer = 0 AND c.queue = $1
            AND c.type = again.type AND c.run_at > now()
          ORDER BY c.run_at, c.id LIMIT $3) first
), blocked AS MATERIALIZED (
    SELECT DISTINCT ON (holder.key) holder.*, behind.run_at
      FROM holder
     CROSS JOIN LATERAL (
         SELECT c.run_at FROM {schema}.commands c
          WHERE c.status = 'waiting' AND c.needs = 0 AND c.ordering_key IS NOT NULL AND c.line_at IS NULL
            AND c.queue = $1 AND c.ordering_key = holder.key AND c.run_at <= now()
          ORDER BY c.run_at LIMIT 1) behind
     ORDER BY holder.key, holder.held_by
), shown AS MATERIALIZED (
    SELECT * FROM blocked ORDER BY run_at, key LIMIT $2
)
SELECT shown.key, shown.held_by, c.id, c.command_id, c.type, c.status, c.attempts,
       CASE WHEN c.status <> 'failed' THEN c.run_at END AS next_at,
       (SELECT count(*) FROM (
            SELECT FROM {schema}.commands b
             WHERE b.status = 'waiting' AND b.needs = 0 AND b.ordering_key IS NOT NULL AND b.line_at IS NULL
               AND b.queue = $1 AND b.ordering_key = shown.key
              ORDER BY b.run_at, b.id LIMIT $6) AS few) AS behind,
       extract(epoch FROM clock_timestamp() - shown.run_at)::double precision AS oldest
  FROM shown JOIN {schema}.commands c ON c.id BETWEEN shown.id AND shown.id
 ORDER BY shown.run_at, shown.key
