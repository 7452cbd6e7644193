-- When the first of the events was written that have just arrived in a bucket, behind a cursor.
-- parameters: $1 text topic, $2 smallint bucket, $3 bigint cursor, $4 bigint bound
-- returns: created_at, now (the database's clock)
-- locks: nothing
SELECT created_at, clock_timestamp() AS now FROM {schema}.events
 WHERE topic = $1 AND bucket = $2 AND status = 'waiting' AND place IS NULL AND id > $3 AND id <= $4
 ORDER BY id LIMIT 1
