-- Another time for rows that have not begun; one that has passed means now, so that no cursor has passed it.
-- parameters: $1 bigint[] ids, $2 timestamptz time
-- returns: id of each row that waits
-- locks: the rows (held already)
UPDATE {schema}.{table} SET run_at = greatest($2, clock_timestamp()), updated_at = clock_timestamp()
 WHERE id = ANY ($1::bigint[]) AND status IN ('pending', 'waiting')
RETURNING id
