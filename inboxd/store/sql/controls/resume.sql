-- End a pause; a trigger notifies workers.
-- parameters: $1 text kind, $2 text name
-- returns: paused_at; no row if it is not paused
-- locks: the row
DELETE FROM {schema}.controls WHERE kind = $1 AND name = $2 RETURNING paused_at
