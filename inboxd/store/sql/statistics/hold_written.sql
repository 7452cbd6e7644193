-- Lock the oldest rows that workers wrote, to roll them up in the same transaction. Young rows are left, so that a minute
-- is mostly complete when it is rolled up, and is written once; later rows count all the same.
-- parameters: $1 integer rows, $2 interval since the beginning of its minute
-- returns: id
-- locks: the rows; those that another leader holds are skipped
SELECT id FROM {schema}.stats_written
 WHERE minute < statement_timestamp() - $2::interval
 ORDER BY minute LIMIT $1 FOR UPDATE SKIP LOCKED
