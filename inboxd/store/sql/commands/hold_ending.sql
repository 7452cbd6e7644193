-- Lock commands, several of which are about to end or to become dead letters, and the rows that wait for them. Must be the
-- first statement in its transaction that locks commands.
-- parameters: $1 bigint[] ids, $2 uuid[] command_ids (then one outcome for all), $3 text[] outcomes (succeeded, failed,
--             cancelled; null: it goes on)
-- returns: nothing
-- locks: the rows and those that wait for them, FOR UPDATE: first those without dependencies, each in the order of ids
SELECT {schema}.hold_ending(
    $1::bigint[] || ARRAY(SELECT named.id FROM {schema}.commands named WHERE named.command_id = ANY ($2::uuid[])),
    $3::text[])
