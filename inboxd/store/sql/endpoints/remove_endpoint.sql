-- Remove an endpoint; workers are notified by a trigger. Its deliveries stay.
-- parameters: $1 text name
-- returns: name; no row when there is no such endpoint
-- locks: the row
DELETE FROM {schema}.endpoints WHERE name = $1 RETURNING name
