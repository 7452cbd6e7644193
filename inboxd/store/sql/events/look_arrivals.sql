-- The lanes among these with arrivals after their cursors.
-- parameters: arrays, one entry a lane: $1 text[] topics, $2 smallint[] buckets, $3 bigint[] cursors
-- returns: lane (its position in the arrays, from 1), first (an id), type (of that row)
-- locks: nothing
SELECT lane.lane, e.id AS first, e.type
  FROM unnest($1::text[], $2::smallint[], $3::bigint[]) WITH ORDINALITY AS lane(topic, bucket, after, lane)
 CROSS JOIN LATERAL (
     SELECT e.id, e.type FROM {schema}.events e
      WHERE e.status = 'waiting' AND e.position IS NULL AND e.topic = lane.topic
        AND (e.bucket, e.id) > (lane.bucket, lane.after)
        AND (e.bucket, e.id) <= (lane.bucket, 9223372036854775807)
      ORDER BY e.bucket, e.id LIMIT 1) e
