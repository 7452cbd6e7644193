-- When the first arrival of a bucket after a cursor was written.
-- parameters: $1 text topic, $2 smallint bucket, $3 bigint cursor, $4 bigint bound
-- returns: created_at, now (the database's clock)
-- locks: nothing
SELECT created_at, clock_timestamp() AS now FROM {schema}.events
 WHERE topic = $1 AND status = 'waiting' AND position IS NULL
   AND (bucket, id) > ($2::smallint, $3::bigint) AND (bucket, id) <= ($2::smallint, $4::bigint)
 ORDER BY bucket, id LIMIT 1
