-- Before commands are replayed: lock their unique keys, as senders do, so that the next statement sees any command that has
-- one of them by now.
-- parameters: $1 bigint[] ids
-- returns: nothing
-- locks: the unique keys (advisory)
SELECT {schema}.hold_unique_keys(array_agg(c.type ORDER BY c.id), array_agg(c.unique_key ORDER BY c.id))
  FROM {schema}.commands c WHERE c.id = ANY ($1::bigint[]) AND c.unique_key IS NOT NULL
