-- Disable an endpoint for an operator; a trigger notifies workers.
-- parameters: $1 text name, $2 text why, $3 timestamptz: only if it last changed then (null: in any case)
-- returns: name; no row if the endpoint does not exist, it is already disabled, or it last changed at another time
-- locks: the row
UPDATE {schema}.endpoints
   SET enabled = false, disabled_at = clock_timestamp(), disabled_by = 'operator', disabled_reason = $2,
       version = version + 1, changed_at = clock_timestamp()
 WHERE name = $1 AND enabled AND ($3::timestamptz IS NULL OR changed_at = $3)
RETURNING name
