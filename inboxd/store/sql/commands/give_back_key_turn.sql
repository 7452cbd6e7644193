-- Undo the granted start of a command that did not begin. A later start of its key stays.
-- parameters: $1 text queue, $2 text ordering key, $3 timestamptz next_at as take_key_turn.sql returned it
-- returns: nothing
-- locks: the key's row
DELETE FROM {schema}.key_rates
 WHERE queue = $1 AND ordering_key = $2
   AND next_at + '0'::interval = $3 -- not by the index of next_at, under which many keys may have the same time
