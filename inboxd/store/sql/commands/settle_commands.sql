-- Move ended commands (succeeded, cancelled) into history, as far as this worker's claims still
-- hold them. For commands that never touched the database; the others settle inside their own
-- transaction by the function settle_command, which raises instead. A row with a worker is running
-- (a constraint says so); saying it again would invite the planner to the index of running rows,
-- whose dead entries it would join with every settlement.
-- parameters: arrays, one entry a row: $1 bigint[] ids, $2 bigint[] fences, $3 text[] statuses,
--             $4 double precision[] seconds, $5 text[] results (JSON, null: none; an
--             empty array: none throughout), then $6 uuid worker
-- returns: id of each row that matched
-- locks: the rows
WITH done AS (
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::double precision[], $5::text[])
        AS t(id, fence, ended, seconds, outcome)
), gone AS (
    DELETE FROM {schema}.commands c USING done
     WHERE c.id BETWEEN done.id AND done.id AND c.fence = done.fence AND c.worker_id = $6::uuid
    RETURNING c.*, done.ended, done.seconds, done.outcome
)
INSERT INTO {schema}.commands_history
       (id, command_id, queue, type, schema_version, payload, priority, ordering_key, bucket,
        unique_key, tenant, entity_type, entity_id, status, attempts, max_attempts, crashes, fence,
        run_at, deadline, worker_id, started_at, cancel_requested, origin_kind, origin_id, replay_of,
        batch_id, correlation_id, causation_id, traceparent, errors, fingerprint, result, progress,
        body_id, body_at, body_bytes, created_at, updated_at, finished_at, duration, awaited)
SELECT id, command_id, queue, type, schema_version, payload, priority, ordering_key, bucket,
       unique_key, tenant, entity_type, entity_id, ended, attempts + 1, max_attempts, crashes,
       fence, run_at, deadline, worker_id, started_at, cancel_requested, origin_kind, origin_id,
       replay_of, batch_id, correlation_id, causation_id, traceparent, errors, fingerprint,
       outcome::jsonb, progress, body_id, body_at, body_bytes, created_at, clock_timestamp(),
       clock_timestamp(), make_interval(secs => seconds), awaited
  FROM gone
RETURNING id
