-- Write down that an endpoint took a delivery, at most once a minute; nobody is notified of that.
-- parameters: $1 text name, $2 int the answer's status
-- returns: nothing
-- locks: the row
UPDATE {schema}.endpoints
   SET last_success_at = clock_timestamp(), last_status = $2
 WHERE name = $1 AND (last_success_at IS NULL OR last_success_at < clock_timestamp() - interval '1 minute')
