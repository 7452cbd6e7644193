-- Cancel the unsettled command of a unique key, unless it runs.
-- called by: resolve_unique_keys
-- roles: none
-- locks: that row
CREATE OR REPLACE FUNCTION {schema}.cancel_unique(of_type text, key text) RETURNS void
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    WITH gone AS (
        DELETE FROM {schema}.commands
         WHERE type = of_type AND unique_key = key AND status IN ('pending', 'waiting')
        RETURNING *
    )
    INSERT INTO {schema}.commands_history
           (id, command_id, queue, type, schema_version, payload, priority, ordering_key, bucket,
            unique_key, tenant, entity_type, entity_id, status, attempts, max_attempts, crashes, fence,
            run_at, deadline, worker_id, started_at, cancel_requested, origin_kind, origin_id, replay_of,
            batch_id, correlation_id, causation_id, traceparent, errors, fingerprint, result, progress,
            body_id, body_at, body_bytes, created_at, updated_at, finished_at, awaited)
    SELECT id, command_id, queue, type, schema_version, payload, priority, ordering_key, bucket,
           unique_key, tenant, entity_type, entity_id, 'cancelled', attempts, max_attempts, crashes, fence,
           run_at, deadline, worker_id, started_at, true, origin_kind, origin_id, replay_of,
           batch_id, correlation_id, causation_id, traceparent, errors, fingerprint, result, progress,
           body_id, body_at, body_bytes, created_at, clock_timestamp(), clock_timestamp(), awaited
      FROM gone
$$;
