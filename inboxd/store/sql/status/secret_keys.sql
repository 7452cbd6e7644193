-- The secret keys of payloads, as workers declared them, over all of these types.
-- parameters: $1 text kind, $2 text[] types, null for all
-- returns: name
-- locks: nothing
SELECT DISTINCT k.name
  FROM {schema}.declared_types t CROSS JOIN unnest(t.secret_keys) AS k(name)
 WHERE t.kind = $1 AND ($2::text[] IS NULL OR t.type = ANY ($2))
