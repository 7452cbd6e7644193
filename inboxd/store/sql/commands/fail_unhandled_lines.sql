-- Turn a type's due commands with ordering keys that no live worker serves into dead letters, a page at a
-- time: those in line, and those that hold their key.
-- parameters: $1 text queue, $2 text type, $3 text error (a JSON object), $4 integer rows, $5 interval: only
--             rows that have waited this long
-- returns: id of each
-- locks: the rows; rows that others hold are skipped; then the rows that wait for them (hold_ending)
WITH stranded AS MATERIALIZED (
    SELECT id FROM {schema}.commands
     WHERE status LIKE 'waiting' AND needs = 0 AND ordering_key IS NOT NULL AND line_at IS NULL
       AND queue = $1 AND type = $2 AND run_at <= now() - $5::interval
     ORDER BY run_at, id LIMIT $4 FOR UPDATE SKIP LOCKED
), held AS MATERIALIZED (
    SELECT id FROM {schema}.commands
     WHERE status LIKE 'waiting' AND (line_at IS NULL)::integer = 0
       AND queue = $1 AND type = $2 AND run_at <= now() - $5::interval
     ORDER BY run_at, id LIMIT $4 FOR UPDATE SKIP LOCKED
), lost AS MATERIALIZED (
    SELECT id FROM stranded UNION ALL SELECT id FROM held
), in_order AS MATERIALIZED (
    SELECT {schema}.hold_ending(array_agg(id), ARRAY['failed']) FROM lost
)
UPDATE {schema}.commands c
   SET status = 'failed', suspect_group = NULL, errors = coalesce(c.errors, '[]')
                || (jsonb_build_object('at', clock_timestamp()) || $3::jsonb), fingerprint = 'no-handler:' || type,
       line_at = coalesce(c.line_at, c.run_at), updated_at = clock_timestamp()
  FROM in_order CROSS JOIN lost WHERE c.id BETWEEN lost.id AND lost.id
RETURNING c.id
