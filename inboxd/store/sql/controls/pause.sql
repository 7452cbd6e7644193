-- Pause a type, topic, queue, schedule or webhook source; a trigger notifies workers.
-- parameters: $1 text kind, $2 text name, $3 text actor, $4 text reason (null: none), $5 text mode (hold or refuse)
-- returns: name; no row if it is already paused in that mode
-- locks: the row
INSERT INTO {schema}.controls AS old (kind, name, actor, reason, mode) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (kind, name) DO UPDATE SET actor = excluded.actor, reason = excluded.reason, mode = excluded.mode
 WHERE old.mode <> excluded.mode
RETURNING name
