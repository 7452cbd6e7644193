-- Before commands with unique keys are inserted: cancel those that they replace, and return which are not to be inserted,
-- since another command stays. Transactions that send the same key run one after the other.
-- parameters: arrays, one entry a command: $1 text[] types, $2 text[] unique keys, $3 text[] on_conflict
-- returns: one boolean[]: whether the other command stays. Raises IB006 if one is to be rejected
-- locks: the unique keys (advisory), the replaced commands
SELECT {schema}.resolve_unique_keys($1::text[], $2::text[], $3::text[])
