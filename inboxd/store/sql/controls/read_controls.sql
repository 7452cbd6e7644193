-- Everything that is paused.
-- parameters: none
-- returns: kind, name, paused_at, actor, reason
-- locks: nothing
SELECT kind, name, paused_at, actor, reason FROM {schema}.controls ORDER BY kind, name
