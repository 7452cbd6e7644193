-- Another priority for commands that have not begun: they move to another lane, and stand in it by their time.
-- parameters: $1 bigint[] ids, $2 smallint priority
-- returns: id of each row that waits
-- locks: the rows (held already)
UPDATE {schema}.commands SET priority = $2, updated_at = clock_timestamp()
 WHERE id = ANY ($1::bigint[]) AND status IN ('pending', 'waiting')
RETURNING id
