-- What the workers declared of a type: the retry rules of its handlers, and which keys of its payload are secrets.
-- parameters: $1 text kind, $2 text type
-- returns: retry (jsonb list, null when nobody has said), secret_keys; no row when nobody declares the type
-- locks: nothing
SELECT retry, secret_keys FROM {schema}.declared_types WHERE kind = $1 AND type = $2
