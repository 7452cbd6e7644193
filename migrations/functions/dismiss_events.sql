-- Move dead letters that must not run again into history as dismissed: a function, so that an operator needs
-- no privilege to write history.
-- called by: the daemon
-- roles: operator, worker
-- locks: the rows (held already)
CREATE OR REPLACE FUNCTION {schema}.dismiss_events(ids bigint[]) RETURNS SETOF bigint
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
    WITH gone AS (
        DELETE FROM {schema}.events WHERE id = ANY (ids) AND status LIKE 'failed' RETURNING *
    )
    INSERT INTO {schema}.events_history
           (id, event_id, topic, mode, type, schema_version, source, ordering_key, bucket, dedup_key, tenant,
            entity_type, entity_id, payload, headers, correlation_id, causation_id, traceparent, status, attempts,
            crashes, run_at, errors, fingerprint, body_id, body_at, body_bytes, occurred_at, created_at, updated_at,
            finished_at, origin_kind, origin_id)
    SELECT id, event_id, topic, mode, type, schema_version, source, ordering_key, bucket, dedup_key, tenant,
            entity_type, entity_id, payload, headers, correlation_id, causation_id, traceparent, 'dismissed', attempts,
            crashes, run_at, errors, fingerprint, body_id, body_at, body_bytes, occurred_at, created_at, clock_timestamp(),
            clock_timestamp(), origin_kind, origin_id
      FROM gone
    RETURNING id
$$;
