-- Due events of a lane, if no worker handles it (still), a page at a time.
-- parameters: $1 text topic, $2 text type, $3 integer rows, $4 interval: only rows that have waited this long
-- returns: id of each
-- locks: the rows; rows that others hold are skipped
SELECT e.id FROM {schema}.events e
 WHERE e.status = 'pending' AND e.topic = $1 AND e.type = $2 AND e.run_at <= now() - $4::interval
   AND {schema}.is_unhandled($1, $2)
 ORDER BY e.run_at, e.id LIMIT $3 FOR UPDATE OF e SKIP LOCKED
