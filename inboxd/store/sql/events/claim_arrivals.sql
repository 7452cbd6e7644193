-- Read a page of rows that have just arrived in their lines, bucket by bucket, each from its cursor up to the bound below
-- which no row is missing. The caller holds the buckets since an earlier statement.
-- parameters: arrays, one entry a bucket: $1 text[] topics, $2 smallint[] buckets, $3 bigint[] cursors,
--             $4 bigint[] bounds; then $5 integer rows, $6 integer rows of each bucket
-- returns: as claim_events.sql; bucket, lane (position in the arrays, from 1), position (null); ready: it is
--          due; behind: its line has lined-up rows, so it must be lined up behind them;
--          again: it was a dead letter before
-- locks: nothing: a transaction that changes the rows locks the bucket first
SELECT {claimed event},
       e.bucket, e.position, e.run_at <= now() AS ready, head.position IS NOT NULL AS behind, e.errors IS NOT NULL AS again,
       lane.lane
  FROM unnest($1::text[], $2::smallint[], $3::bigint[], $4::bigint[])
       WITH ORDINALITY AS lane(topic, bucket, after, bound, lane)
 CROSS JOIN LATERAL (
     SELECT * FROM {schema}.events e
      WHERE e.status = 'waiting' AND e.position IS NULL AND e.topic = lane.topic
        AND (e.bucket, e.id) > (lane.bucket, lane.after) AND (e.bucket, e.id) <= (lane.bucket, lane.bound)
      ORDER BY e.bucket, e.id
      LIMIT $6) e
  LEFT JOIN LATERAL (
     SELECT h.position FROM {schema}.events h
      WHERE h.head AND h.topic = e.topic AND h.ordering_key = e.ordering_key LIMIT 1) head ON true
 LIMIT $5
