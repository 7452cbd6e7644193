-- End a pause; workers are notified by a trigger.
-- parameters: $1 text kind, $2 text name
-- returns: paused_at; no row when it is not paused
-- locks: the row
DELETE FROM {schema}.controls WHERE kind = $1 AND name = $2 RETURNING paused_at
