-- The retry rules of a type, as the workers declared them.
-- parameters: $1 text kind, $2 text type
-- returns: one jsonb list, null when nobody has said; no row when nobody declares the type
-- locks: nothing
SELECT retry FROM {schema}.declared_types WHERE kind = $1 AND type = $2
