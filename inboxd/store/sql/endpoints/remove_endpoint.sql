-- Remove an endpoint; a trigger notifies workers. Its deliveries stay.
-- parameters: $1 text name
-- returns: name; no row if there is no such endpoint
-- locks: the row
DELETE FROM {schema}.endpoints WHERE name = $1 RETURNING name
