-- Steps of a workflow: their states, their dependencies when they were made, and those that are still unmet. They are
-- read as members of the batch, which saves a probe of each day of history per step; the others (running ones and
-- batches) are searched by uuid. Names and members are matched by sorting both: a nested join of two lists of a thousand
-- would be a million comparisons.
-- parameters: $1 bigint workflow, $2 integer steps at most, by name, $3 timestamptz when the workflow was created
-- returns: name, member (uuid), kind, id, type, status, attempts, finished_at, error (the newest, shortened; or that it was
--          skipped or has expired), after (text[]: names with conditions; null: not kept), waits (text[]: uuids of unmet
--          dependencies with conditions); in the order in which the steps were made
-- locks: nothing
WITH named AS MATERIALIZED (
    SELECT s.name, s.member, s.after FROM {schema}.steps s WHERE s.batch_id = $1::bigint ORDER BY s.batch_id, s.name LIMIT $2::integer
), unsettled AS MATERIALIZED (
    SELECT c.command_id, c.id, c.type, c.status, c.attempts, NULL::timestamptz AS finished_at,
           {content text: left(c.errors -> -1 ->> 'error', 200)} AS error
      FROM {schema}.commands c
     WHERE c.batch_id BETWEEN $1::bigint AND $1::bigint AND c.status <> 'running' LIMIT 2 * $2
), settled AS MATERIALIZED (
    SELECT h.command_id, h.id, h.type, h.status, h.attempts, h.finished_at,
           coalesce({reason of h}, {content text: left(h.errors -> -1 ->> 'error', 200)}) AS error
      FROM {schema}.commands_history h
     WHERE h.batch_id = $1 AND h.finished_at >= $3::timestamptz LIMIT 2 * $2
), placed AS MATERIALIZED (
    SELECT u.name, u.member, u.after, lead(u.id) OVER beside AS id, lead(u.type) OVER beside AS type,
           lead(u.status) OVER beside AS status, lead(u.attempts) OVER beside AS attempts,
           lead(u.finished_at) OVER beside AS finished_at, lead(u.error) OVER beside AS error
      FROM (SELECT n.name, n.member, n.after, NULL::bigint AS id, NULL::text AS type, NULL::text AS status,
                   NULL::smallint AS attempts, NULL::timestamptz AS finished_at, NULL::text AS error, NULL::boolean AS hot
              FROM named n
             UNION ALL SELECT NULL, m.command_id, NULL, m.id, m.type, m.status, m.attempts, m.finished_at, m.error, true FROM unsettled m
             UNION ALL SELECT NULL, m.command_id, NULL, m.id, m.type, m.status, m.attempts, m.finished_at, m.error, false FROM settled m) u
    WINDOW beside AS (PARTITION BY u.member ORDER BY u.name IS NULL, u.hot DESC, u.id DESC)
)
SELECT n.name, n.member, CASE WHEN b.id IS NULL THEN 'command' ELSE b.kind END AS kind,
       coalesce(n.id, c.id, b.id) AS id, coalesce(n.type, c.type) AS type,
       coalesce(n.status, c.status, b.status) AS status, coalesce(n.attempts, c.attempts) AS attempts,
       coalesce(n.finished_at, b.finished_at) AS finished_at, coalesce(n.error, c.error) AS error, n.after,
       ARRAY(SELECT d.needs::text || ' ' || d.condition FROM {schema}.dependencies d
              WHERE d.waiting = n.member AND coalesce(n.status, b.status) = 'waiting') AS waits
  FROM placed n
  LEFT JOIN LATERAL (SELECT c.id, c.type, c.status, c.attempts, {content text: left(c.errors -> -1 ->> 'error', 200)} AS error
                       FROM {schema}.commands c WHERE n.id IS NULL AND c.command_id = n.member LIMIT 1) c ON true
  LEFT JOIN LATERAL (SELECT b.id, b.kind, b.status, b.finished_at FROM {schema}.batches b
                      WHERE n.id IS NULL AND c.id IS NULL AND b.batch_id = n.member LIMIT 1) b ON true
 WHERE n.name IS NOT NULL
 ORDER BY n.member, n.name
