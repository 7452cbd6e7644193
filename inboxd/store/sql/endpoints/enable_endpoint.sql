-- Enable an endpoint, as if it had never failed; a trigger notifies workers.
-- parameters: $1 text name, $2 timestamptz: only if it last changed then (null: in any case)
-- returns: name; no row if the endpoint does not exist, it is already enabled, or it last changed at another time
-- locks: the row
UPDATE {schema}.endpoints
   SET enabled = true, disabled_at = NULL, disabled_by = NULL, disabled_reason = NULL, failing_since = NULL,
       version = version + 1, changed_at = clock_timestamp()
 WHERE name = $1 AND NOT enabled AND ($2::timestamptz IS NULL OR changed_at = $2)
RETURNING name
