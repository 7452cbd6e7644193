-- End commands without running them: dead letters as dismissed, or commands that have not started as cancelled. Returns the
-- ids of those that ended. A function, so that an operator needs no privilege to write history.
-- called by: resolve_unique_keys, the daemon
-- roles: operator, worker
-- locks: the rows (held already)
CREATE OR REPLACE FUNCTION {schema}.put_away(ids bigint[], ending text) RETURNS SETOF bigint
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
    WITH gone AS (
        DELETE FROM {schema}.commands
         WHERE id = ANY (ids)
           AND status = ANY (CASE ending WHEN 'dismissed' THEN ARRAY['failed']
                                         WHEN 'cancelled' THEN ARRAY['pending', 'waiting'] END)
        RETURNING *
    )
    INSERT INTO {schema}.commands_history
           (id, command_id, queue, type, schema_version, payload, priority, ordering_key, bucket,
            unique_key, tenant, entity_type, entity_id, status, attempts, max_attempts, crashes, fence,
            run_at, deadline, worker_id, started_at, cancel_requested, origin_kind, origin_id, replay_of,
            batch_id, correlation_id, causation_id, traceparent, errors, fingerprint, result, progress,
            body_id, body_at, body_bytes, created_at, updated_at, finished_at, awaited, sender)
    SELECT id, command_id, queue, type, schema_version, payload, priority, ordering_key, bucket,
            unique_key, tenant, entity_type, entity_id, ending, attempts, max_attempts, crashes, fence,
            run_at, deadline, worker_id, started_at, cancel_requested OR ending = 'cancelled', origin_kind, origin_id, replay_of,
            batch_id, correlation_id, causation_id, traceparent, errors, fingerprint, result, progress,
            body_id, body_at, body_bytes, created_at, clock_timestamp(), clock_timestamp(), awaited, sender
      FROM gone
    RETURNING id
$$;
