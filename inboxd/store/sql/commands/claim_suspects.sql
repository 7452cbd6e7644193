-- Lease the due commands of one group of suspects (ADR 20), as far as there is room: those without an ordering
-- key, of queues without a limit over all workers.
-- parameters: $1 uuid worker, $2 uuid group, $3 text[] types, $4 text[] queues, $5 integer[] room in each,
--             $6 integer rows, $7 boolean: no other command runs on this worker
-- returns: as claim_commands.sql, lane = 0
-- locks: the worker's row FOR KEY SHARE, the rows; rows that others hold are skipped
WITH alive AS MATERIALIZED (
    SELECT id FROM {schema}.workers WHERE id = $1::uuid AND state = 'running' FOR KEY SHARE
), member AS MATERIALIZED (
    SELECT c.id, c.queue, row_number() OVER (PARTITION BY c.queue ORDER BY c.run_at, c.id) AS position
      FROM {schema}.commands c
     WHERE c.suspect_group = $2::uuid AND c.run_at <= now()
       AND CASE WHEN c.suspect_group IS NOT NULL  -- implies the predicate of no other index
                THEN c.status = 'pending' AND c.type = ANY ($3::text[]) AND c.queue = ANY ($4::text[]) END
     ORDER BY c.run_at, c.id
), picked AS MATERIALIZED (
    SELECT held.id FROM alive
     CROSS JOIN member
     CROSS JOIN LATERAL (
         SELECT c.id FROM {schema}.commands c
          WHERE c.id BETWEEN member.id AND member.id
            AND CASE WHEN c.id IS NOT NULL THEN c.status = 'pending' AND c.suspect_group = $2::uuid END
            FOR UPDATE SKIP LOCKED) held
     WHERE member.position <= (SELECT room.rows FROM unnest($4::text[], $5::integer[]) AS room(queue, rows)
                             WHERE room.queue = member.queue)
     LIMIT $6
)
UPDATE {schema}.commands c
   SET status = 'running', worker_id = $1::uuid, fence = c.fence + 1, started_at = clock_timestamp(),
       updated_at = clock_timestamp(), alone_fence = CASE WHEN $7::boolean THEN c.fence + 1 END
  FROM picked
 WHERE c.id BETWEEN picked.id AND picked.id
RETURNING {claimed command}, 0 AS lane
