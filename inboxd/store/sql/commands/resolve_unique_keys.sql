-- Before commands with unique keys are inserted: cancel those that they replace, and say which of them are
-- not to be inserted, since another stays. Senders of a key come one after the other, until each commits.
-- parameters: arrays, one entry a command: $1 text[] types, $2 text[] unique keys, $3 text[] on_conflict
-- returns: one boolean[]: the other one stays. Raises IB006 if one is to be rejected
-- locks: the unique keys (advisory), what is replaced
SELECT {schema}.resolve_unique_keys($1::text[], $2::text[], $3::text[])
