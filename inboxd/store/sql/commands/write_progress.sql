-- Write the progress that handlers of running commands reported. Never waits: a row that is being settled is skipped, so
-- this cannot take part in a deadlock.
-- parameters: $1 uuid worker; arrays, one entry a command: $2 bigint[] ids, $3 bigint[] fences,
--             $4 text[] progress (a JSON object)
-- returns: id of each row whose claim held
-- locks: the rows; rows that others hold are skipped
WITH told AS (
    SELECT id, fence, progress FROM unnest($2::bigint[], $3::bigint[], $4::text[]) AS t(id, fence, progress)
), held AS MATERIALIZED (
    SELECT c.id, told.progress FROM told
     CROSS JOIN LATERAL (
         SELECT c.id FROM {schema}.commands c
          WHERE c.id = told.id AND c.fence = told.fence AND c.worker_id = $1::uuid
            FOR NO KEY UPDATE SKIP LOCKED) c
)
UPDATE {schema}.commands c
   SET progress = held.progress::jsonb || jsonb_build_object('at', clock_timestamp())
  FROM held WHERE c.id BETWEEN held.id AND held.id
RETURNING c.id
