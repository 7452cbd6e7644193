-- Turn a lane's due events that no live worker handles into dead letters, a page at a time.
-- parameters: $1 text topic, $2 text type, $3 text error (a JSON object), $4 integer rows,
--             $5 interval: only rows that have waited this long
-- returns: id of each
-- locks: the rows; rows that others hold are skipped
WITH stranded AS MATERIALIZED (
    SELECT id FROM {schema}.events
     WHERE status = 'pending' AND topic = $1 AND type = $2 AND run_at <= now() - $5::interval
     ORDER BY run_at, id LIMIT $4 FOR UPDATE SKIP LOCKED
)
UPDATE {schema}.events e
   SET status = 'failed', errors = coalesce(e.errors, '[]') 
                || (jsonb_build_object('at', clock_timestamp()) || $3::jsonb), fingerprint = 'no-handler:' || type,
       updated_at = clock_timestamp()
  FROM stranded WHERE e.id BETWEEN stranded.id AND stranded.id
RETURNING e.id
