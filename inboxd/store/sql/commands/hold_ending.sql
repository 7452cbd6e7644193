-- Hold commands of which several are about to end, or to become dead letters, with what waits for them: the first statement
-- that locks commands in its transaction.
-- parameters: $1 bigint[] ids, $2 uuid[] command_ids (then one outcome for all), $3 text[] outcomes (succeeded, failed,
--             cancelled; null: it goes on)
-- returns: nothing
-- locks: the rows and what waits for them, FOR UPDATE: what waits for nothing first, each in the order of ids
SELECT {schema}.hold_ending(
    $1::bigint[] || ARRAY(SELECT named.id FROM {schema}.commands named WHERE named.command_id = ANY ($2::uuid[])),
    $3::text[])
