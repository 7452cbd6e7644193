-- Write down that an endpoint took a delivery, unless one of just before is noted; nobody is notified of that.
-- parameters: $1 text name, $2 int the answer's status, $3 double precision seconds since then, $4 interval: one that is
--   noted is older than that
-- returns: name; no row when one of just before, or a later one, is noted
-- locks: the row
UPDATE {schema}.endpoints
   SET last_success_at = statement_timestamp() - make_interval(secs => $3), last_status = $2
 WHERE name = $1
   AND (last_success_at < statement_timestamp() - make_interval(secs => $3) - $4::interval) IS NOT FALSE
RETURNING name
