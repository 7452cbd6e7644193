-- Dead letters without an ordering key run again as new rows, which replace them in batches, in dependencies
-- and as steps; a row whose unique key is held, or whose batch was cancelled, is left alone.
-- parameters: $1 bigint[] ids, $2 text actor, $3 text reason
-- returns: old_id, new_id of each row that was replayed
-- locks: the rows (held already), the new ones, their edges and steps
SELECT old_id, new_id FROM {schema}.replay_commands($1::bigint[], $2, $3)
