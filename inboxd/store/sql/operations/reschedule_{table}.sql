-- Set the time of rows that have not begun; a past time means now, so that the row is not behind a cursor.
-- parameters: $1 bigint[] ids, $2 timestamptz time
-- returns: id of each row that waits
-- locks: the rows (held already)
UPDATE {schema}.{table} SET run_at = greatest($2, clock_timestamp()), updated_at = clock_timestamp()
 WHERE id = ANY ($1::bigint[]) AND status IN ('pending', 'waiting')
RETURNING id
