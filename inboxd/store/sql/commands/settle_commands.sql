-- Move ended commands into history, if this worker's claims still hold them: succeeded, cancelled, or expired, which is
-- cancelled without a request or an attempt. Used for commands that did not use the database; the others settle inside
-- their own transaction by the function settle_command, which raises instead. A row with a worker is running (a
-- constraint guarantees it); a condition on the status would invite the planner to use the index of running rows, and to
-- read its dead entries at every settlement.
-- parameters: arrays, one entry a row: $1 bigint[] ids, $2 bigint[] fences, $3 text[] statuses,
--             $4 double precision[] seconds, $5 text[] results (JSON, null: none; NULL
--             in place of the array: none throughout), then $6 uuid worker
-- returns: id of each row that matched
-- locks: the rows
WITH done AS (
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::double precision[], $5::text[])
        AS t(id, fence, ended, seconds, outcome)
), gone AS (
    DELETE FROM {schema}.commands c USING done
     WHERE c.id BETWEEN done.id AND done.id AND c.fence = done.fence AND c.worker_id = $6::uuid
    RETURNING c.*, done.ended, done.ended = 'expired' AS expired, done.seconds, done.outcome
)
INSERT INTO {schema}.commands_history
       ({command but status, attempts, started_at, result, updated_at},
        status, attempts, started_at, result, updated_at, finished_at, duration)
SELECT {command but status, attempts, started_at, result, updated_at},
       CASE WHEN expired THEN 'cancelled' ELSE ended END,
       CASE WHEN expired THEN attempts ELSE least(attempts + 1, 32767) END,
       CASE WHEN expired THEN NULL ELSE started_at END, outcome::jsonb, clock_timestamp(), clock_timestamp(),
       CASE WHEN expired THEN NULL ELSE make_interval(secs => seconds) END
  FROM gone
RETURNING id
