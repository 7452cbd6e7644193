-- Lease a page of due commands for a live worker: queue by queue, and lane by lane within a queue,
-- each from its cursor, and of each queue at most its room.
-- FOR KEY SHARE on the worker's own row: this claim cannot commit after the worker was declared dead.
-- The picked rows are materialized: an inlined locking subquery may run twice.
-- parameters: $1 uuid worker, $2 text[] queues, $3 integer[] room in each, lanes (in order of
--             preference): $4 text[] queues, $5 text[] types, $6 smallint[] priorities,
--             $7 double precision[] and $8 bigint[] cursors (claim_events.sql), $9 integer rows
-- returns: the rows in NO order (sort by lane, run_at, id); lane = its position in the arrays, from 1;
--          texts that are longer than producers may write are cut
-- locks: the worker's row FOR KEY SHARE, the rows; rows that others hold are skipped
WITH alive AS MATERIALIZED (
    SELECT id FROM {schema}.workers WHERE id = $1::uuid AND state = 'running' FOR KEY SHARE
), picked AS MATERIALIZED (
    SELECT c.id, c.lane
      FROM alive
     CROSS JOIN unnest($2::text[], $3::integer[]) AS room(queue, rows)
     CROSS JOIN LATERAL (
         SELECT due.id, lane.lane
           FROM unnest($4::text[], $5::text[], $6::smallint[], $7::double precision[], $8::bigint[])
                WITH ORDINALITY AS lane(queue, type, priority, after_at, after_id, lane)
          CROSS JOIN LATERAL (
              SELECT c.id FROM {schema}.commands c
               WHERE c.status = 'pending' AND c.crashes = 0
                 AND c.queue = lane.queue AND c.type = lane.type AND c.priority = lane.priority
                 AND c.run_at <= now()
                 AND (c.run_at, c.id)
                     > (least(to_timestamp(lane.after_at), now() - interval '100 ms'), lane.after_id)
               ORDER BY c.run_at, c.id
               LIMIT $9
                 FOR UPDATE SKIP LOCKED) due
          WHERE lane.queue = room.queue
          LIMIT room.rows) c
     LIMIT $9
)
UPDATE {schema}.commands c
   SET status = 'running', worker_id = $1::uuid, fence = c.fence + 1, started_at = clock_timestamp(),
       updated_at = clock_timestamp()
  FROM picked
 WHERE c.id BETWEEN picked.id AND picked.id
RETURNING {claimed command}, picked.lane
