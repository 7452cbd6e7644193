-- Hold the oldest of what workers wrote down, to roll it up in the same transaction. What is young is left, so that a
-- minute is mostly there when it is rolled up, and is written once; it counts all the same if it comes later.
-- parameters: $1 integer rows, $2 interval since the beginning of its minute
-- returns: id
-- locks: the rows; those that another leader holds are skipped
SELECT id FROM {schema}.stats_written
 WHERE minute < statement_timestamp() - $2::interval
 ORDER BY minute LIMIT $1 FOR UPDATE SKIP LOCKED
