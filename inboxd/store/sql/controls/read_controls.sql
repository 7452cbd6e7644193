-- List all pauses.
-- parameters: none
-- returns: kind, name, paused_at, actor, reason, mode
-- locks: nothing
SELECT kind, name, paused_at, actor, reason, mode FROM {schema}.controls ORDER BY kind, name
