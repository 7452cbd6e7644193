-- The steps of a workflow in the order of their names' rows, and what each still waits for.
-- parameters: $1 bigint workflow, $2 integer limit
-- returns: name, kind, id, type, status, attempts, finished_at, error (the newest, shortened; or that it was skipped),
--          waits (text[]: names with conditions; what has come is no more among them)
-- locks: nothing
SELECT s.name, CASE WHEN b.id IS NULL THEN 'command' ELSE b.kind END AS kind, coalesce(c.id, h.id, b.id) AS id,
       coalesce(c.type, h.type) AS type, coalesce(c.status, h.status, b.status) AS status,
       coalesce(c.attempts, h.attempts) AS attempts, coalesce(h.finished_at, b.finished_at) AS finished_at,
       CASE WHEN h.status = 'cancelled' AND NOT h.cancel_requested THEN 'skipped: not needed'
            ELSE left(coalesce(c.errors, h.errors) -> -1 ->> 'error', 200) END AS error,
       ARRAY(SELECT coalesce(n.name, d.needs::text) || ' ' || d.condition
               FROM {schema}.dependencies d LEFT JOIN LATERAL (SELECT name FROM {schema}.steps n WHERE n.member = d.needs LIMIT 1) n ON true
              WHERE d.waiting = s.member AND coalesce(c.status, b.status) = 'waiting' ORDER BY 1) AS waits
  FROM {schema}.steps s
  LEFT JOIN LATERAL (SELECT id, command_id, type, status, attempts, errors FROM {schema}.commands c
                      WHERE c.command_id = s.member LIMIT 1) c ON true
  LEFT JOIN LATERAL (SELECT * FROM (
                     SELECT id, type, status, attempts, finished_at, errors, cancel_requested FROM {schema}.commands_history h
                      WHERE h.command_id = s.member OFFSET 0) each ORDER BY id DESC LIMIT 1) h ON true
  LEFT JOIN LATERAL (SELECT id, kind, status, finished_at FROM {schema}.batches b
                      WHERE b.batch_id = s.member LIMIT 1) b ON true
 WHERE s.batch_id = $1::bigint
 ORDER BY coalesce(c.command_id, s.member), s.name LIMIT $2
