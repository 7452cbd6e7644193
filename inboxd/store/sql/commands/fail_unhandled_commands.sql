-- Turn a type's due commands that no live worker serves into dead letters, a page at a time.
-- parameters: $1 text queue, $2 text type, $3 smallint priority, $4 text error (a JSON object),
--             $5 integer rows, $6 interval: only rows that have waited this long
-- returns: id of each
-- locks: the rows; rows that others hold are skipped; then the rows that wait for them (hold_ending)
WITH stranded AS MATERIALIZED (
    SELECT id FROM {schema}.commands
     WHERE status = 'pending' AND crashes = 0 AND queue = $1 AND type = $2 AND priority = $3
       AND run_at <= now() - $6::interval
     ORDER BY run_at, id LIMIT $5 FOR UPDATE SKIP LOCKED
), held AS MATERIALIZED (
    SELECT {schema}.hold_ending(array_agg(id), ARRAY['failed']) FROM stranded
)
UPDATE {schema}.commands c
   SET status = 'failed', errors = coalesce(c.errors, '[]') 
                || (jsonb_build_object('at', clock_timestamp()) || $4::jsonb), fingerprint = 'no-handler:' || type,
       updated_at = clock_timestamp()
  FROM held CROSS JOIN stranded WHERE c.id BETWEEN stranded.id AND stranded.id
RETURNING c.id
