-- Disable an endpoint on an operator's word; workers are notified by a trigger.
-- parameters: $1 text name, $2 text why, $3 timestamptz: only if it was changed then (null: whenever)
-- returns: name; no row when there is no such endpoint, or it is disabled already, or was changed at another time
-- locks: the row
UPDATE {schema}.endpoints
   SET enabled = false, disabled_at = clock_timestamp(), disabled_by = 'operator', disabled_reason = $2,
       version = version + 1, changed_at = clock_timestamp()
 WHERE name = $1 AND enabled AND ($3::timestamptz IS NULL OR changed_at = $3)
RETURNING name
