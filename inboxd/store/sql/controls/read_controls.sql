-- Pauses: all, or those of some names, or the first.
-- parameters: $1 text[] names (null: all), $2 integer rows (null: all)
-- returns: kind, name, paused_at, actor, reason, mode
-- locks: nothing
SELECT kind, name, paused_at, actor, reason, mode FROM {schema}.controls
 WHERE $1::text[] IS NULL OR name = ANY ($1)
 ORDER BY kind, name LIMIT $2::integer
