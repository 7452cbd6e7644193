-- The due heads of lines, lane by lane in the order given, each from its cursor. They may change until their bucket is
-- locked: claim_lined_up.sql reads them again.
-- parameters: $1 text[] topics, $2 text[] types, $3 double precision[] (seconds since the epoch) and
--             $4 bigint[] cursors, both 0: from the beginning, $5 integer heads
-- returns: topic, bucket, ordering_key, id, run_at (seconds since the epoch), lane (from 1)
-- locks: nothing
SELECT lane.topic, e.bucket, e.ordering_key, e.id, date_part('epoch', e.run_at) AS run_at, lane.lane
  FROM unnest($1::text[], $2::text[], $3::double precision[], $4::bigint[])
       WITH ORDINALITY AS lane(topic, type, after_at, after_id, lane)
 CROSS JOIN LATERAL (
     SELECT e.bucket, e.ordering_key, e.id, e.run_at FROM {schema}.events e
      WHERE e.head::integer = 1 AND e.status LIKE 'waiting' AND e.topic = lane.topic AND e.type = lane.type
        AND e.run_at <= now() AND (e.run_at, e.id) > (to_timestamp(lane.after_at), lane.after_id)
      ORDER BY e.run_at, e.id
      LIMIT $5) e
 LIMIT $5
