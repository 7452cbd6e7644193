-- The declarations of a type: the retry rules of its handlers, and the secret keys of its payload.
-- parameters: $1 text kind, $2 text type
-- returns: retry (jsonb list, null if not declared), secret_keys; no row if no worker declares the type
-- locks: nothing
SELECT retry, secret_keys FROM {schema}.declared_types WHERE kind = $1 AND type = $2
