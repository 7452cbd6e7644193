-- Record a successful delivery of an endpoint, unless a recent one is recorded; workers are not notified.
-- parameters: $1 text name, $2 int the answer's status, $3 double precision seconds since then, $4 interval: the least
--   time since the recorded one
-- returns: name; no row if a recent one, or a later one, is recorded
-- locks: the row
UPDATE {schema}.endpoints
   SET last_success_at = statement_timestamp() - make_interval(secs => $3), last_status = $2
 WHERE name = $1
   AND (last_success_at < statement_timestamp() - make_interval(secs => $3) - $4::interval) IS NOT FALSE
RETURNING name
