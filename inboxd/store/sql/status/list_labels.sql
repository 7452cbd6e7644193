-- Titles and descriptions of types, as the workers declared them; null: not given.
-- parameters: each null for any: $1 text kind, $2 text[] types
-- returns: kind, type, title, description
-- locks: nothing
SELECT kind, type, title, description FROM {schema}.declared_types
 WHERE ($1::text IS NULL OR kind = $1) AND ($2::text[] IS NULL OR type = ANY ($2))
