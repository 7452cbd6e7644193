-- Pause a type, topic, queue or schedule; workers are notified by a trigger.
-- parameters: $1 text kind, $2 text name, $3 text actor, $4 text reason (null: none)
-- returns: name; no row when it is paused already
-- locks: the new row
INSERT INTO {schema}.controls (kind, name, actor, reason) VALUES ($1, $2, $3, $4)
    ON CONFLICT (kind, name) DO NOTHING
RETURNING name
