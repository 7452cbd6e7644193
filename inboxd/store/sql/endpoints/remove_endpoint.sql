-- Remove an endpoint; a trigger notifies workers. Its deliveries stay.
-- parameters: $1 text name, $2 timestamptz: only if it last changed then (null: in any case)
-- returns: name; no row if the endpoint does not exist, or it last changed at another time
-- locks: the row
DELETE FROM {schema}.endpoints
 WHERE name = $1 AND ($2::timestamptz IS NULL OR changed_at = $2)
RETURNING name
