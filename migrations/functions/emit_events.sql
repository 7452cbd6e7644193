-- Emit events from plain SQL: a JSON array of objects whose keys are the arguments of emit_event. Returns the columns of
-- emit_event_arrays.
-- called by: the daemon, producers
-- roles: producer, worker
-- locks: as write_events
CREATE OR REPLACE FUNCTION {schema}.emit_events(events jsonb)
    RETURNS TABLE (ordinal bigint, id bigint, event_id uuid, duplicate boolean, conflict boolean)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {schema}.refuse_unknown_keys(events, ARRAY[
        'event_id', 'topic', 'type', 'schema_version', 'source', 'tenant',
        'entity_type', 'entity_id', 'payload', 'headers', 'correlation_id',
        'causation_id', 'traceparent', 'occurred_at', 'run_at', 'mode', 'ordering_key', 'dedup_key']);
    SELECT written.*
      FROM (SELECT array_agg(r.type) AS types, array_agg(r.payload) AS payloads,
                   array_agg(r.topic) AS topics, array_agg(r.event_id) AS event_ids,
                   array_agg(r.schema_version) AS schema_versions,
                   array_agg(r.source) AS sources, array_agg(r.tenant) AS tenants,
                   array_agg(r.entity_type) AS entity_types,
                   array_agg(r.entity_id) AS entity_ids,
                   array_agg(r.headers) AS headers,
                   array_agg(r.correlation_id) AS correlation_ids,
                   array_agg(r.causation_id) AS causation_ids,
                   array_agg(r.traceparent) AS traceparents,
                   array_agg(r.occurred_at) AS occurred_ats,
                   array_agg(r.run_at) AS run_ats,
                   array_agg(r.mode) AS modes,
                   array_agg(r.ordering_key) AS ordering_keys,
                   array_agg(r.dedup_key) AS dedup_keys
              FROM (SELECT value FROM jsonb_array_elements(events) WITH ORDINALITY AS e(value, n)
                     ORDER BY n) AS item
             CROSS JOIN LATERAL jsonb_to_record(item.value) AS r(
                   event_id uuid, topic text, type text, schema_version integer, source text,
                   tenant text, entity_type text, entity_id text, payload jsonb, headers jsonb,
                   correlation_id text, causation_id uuid, traceparent text, occurred_at timestamptz,
                   run_at timestamptz, mode text, ordering_key text, dedup_key text)) AS a
     CROSS JOIN LATERAL {schema}.emit_event_arrays(
           a.types, a.payloads, a.topics, a.event_ids, a.schema_versions, a.sources, a.tenants,
           a.entity_types, a.entity_ids, a.headers, a.correlation_ids, a.causation_ids,
           a.traceparents, a.occurred_ats, a.run_ats, a.modes, a.ordering_keys, a.dedup_keys) AS written
     ORDER BY written.ordinal
$$;
