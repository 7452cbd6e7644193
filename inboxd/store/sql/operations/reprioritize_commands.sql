-- Set the priority of commands that have not begun: they move to another lane, in which run_at decides their position.
-- parameters: $1 bigint[] ids, $2 smallint priority
-- returns: id of each row that waits
-- locks: the rows (held already)
UPDATE {schema}.commands SET priority = $2, updated_at = clock_timestamp()
 WHERE id = ANY ($1::bigint[]) AND status IN ('pending', 'waiting')
RETURNING id
