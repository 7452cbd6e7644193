-- Emit events: write_events, for callers that have no origin to name.
-- called by: emit_events, producers
-- roles: producer, worker
-- locks: as write_events
CREATE OR REPLACE FUNCTION {schema}.emit_event_arrays(
    types text[], payloads jsonb[], topics text[] DEFAULT NULL, event_ids uuid[] DEFAULT NULL,
    schema_versions integer[] DEFAULT NULL, sources text[] DEFAULT NULL, tenants text[] DEFAULT NULL,
    entity_types text[] DEFAULT NULL, entity_ids text[] DEFAULT NULL, headers jsonb[] DEFAULT NULL,
    correlation_ids text[] DEFAULT NULL, causation_ids uuid[] DEFAULT NULL,
    traceparents text[] DEFAULT NULL, occurred_ats timestamptz[] DEFAULT NULL,
    run_ats timestamptz[] DEFAULT NULL, modes text[] DEFAULT NULL, ordering_keys text[] DEFAULT NULL,
    dedup_keys text[] DEFAULT NULL
) RETURNS TABLE (ordinal bigint, id bigint, event_id uuid, duplicate boolean, conflict boolean)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT w.ordinal, w.id, w.event_id, w.duplicate, w.conflict
      FROM {schema}.write_events(
           types, payloads, topics, event_ids, schema_versions, sources, tenants, entity_types, entity_ids, headers,
           correlation_ids, causation_ids, traceparents, occurred_ats, run_ats, modes, ordering_keys,
           dedup_keys) AS w
$$;
