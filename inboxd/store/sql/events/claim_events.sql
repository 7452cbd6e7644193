-- Lock a page of due events, lane by lane in the order given, each from its cursor.
-- The cursor is held back by 100 ms: producers read now() in one order and commit in another, and a
-- row that commits behind the cursor would wait for the next sweep.
-- parameters: $1 text[] topics, $2 text[] types, $3 double precision[] (seconds since
--             the epoch) and $4 bigint[] cursors, both 0: from the beginning, $5 integer rows
-- returns: the rows, oldest first within a lane; lane = its position in the arrays, from 1; run_at and
--          created_at in seconds since the epoch, exact to the microsecond, since to a driver a timestamp costs
--          more than all other columns; occurred_at, null: run_at; headers, null if they are large (then
--          read_headers.sql reads them, and headers_bytes is the most that they may be); texts that are longer
--          than producers may write are cut
-- locks: the rows, FOR UPDATE until the transaction ends; rows that others hold are skipped
SELECT {claimed event}, lane.lane
  FROM unnest($1::text[], $2::text[], $3::double precision[], $4::bigint[])
       WITH ORDINALITY AS lane(topic, type, after_at, after_id, lane)
 CROSS JOIN LATERAL (
     SELECT * FROM {schema}.events e
      WHERE e.status = 'pending' AND e.topic = lane.topic AND e.type = lane.type
        AND e.run_at <= now()
        AND (e.run_at, e.id) > (least(to_timestamp(lane.after_at), now() - interval '100 ms'), lane.after_id)
      ORDER BY e.run_at, e.id
      LIMIT $5
        FOR UPDATE SKIP LOCKED) e
 LIMIT $5
