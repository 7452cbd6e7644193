-- Write a command `webhook.emitted` for each of these events, which this transaction has just written.
--
-- An event that goes to several topics is several rows with one event_id, written by one statement or by several; the
-- unique key allows one unsettled command per event_id. The ordering key is set only if an endpoint wants an order, so that
-- other commands run side by side.
-- called by: events_emitted
-- roles: none
-- locks: the new rows
CREATE OR REPLACE FUNCTION {schema}.write_emitted(of_events bigint[]) RETURNS void
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC'
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
    INSERT INTO {schema}.commands
           (queue, type, payload, unique_key, ordering_key, run_at, tenant, entity_type, entity_id, correlation_id, causation_id,
            traceparent, origin_kind, origin_id)
    SELECT 'webhooks', 'webhook.emitted',
           jsonb_build_object('id', e.event_id, 'type', e.type, 'ordering_key', nullif(e.ordering_key, ''),
                              'entity_type', e.entity_type, 'entity_id', e.entity_id,
                              'timestamp', to_char(e.occurred_at, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
                              'data', coalesce(e.payload, (SELECT b.payload FROM {schema}.bodies b
                                                            WHERE b.id = e.body_id AND b.created_at = e.body_at))),
           e.event_id::text,
           CASE WHEN EXISTS (SELECT FROM {schema}.emitted_types t
                              WHERE t.type = ANY ({schema}.type_patterns(e.type)) AND t.tenant = ANY (ARRAY['', e.tenant])
                                AND t.ordered)
                THEN nullif(e.ordering_key, '') END,
           greatest(e.run_at, statement_timestamp()), e.tenant, e.entity_type, e.entity_id,
           coalesce(e.correlation_id, e.event_id::text), e.event_id, e.traceparent, 'event', e.id
      FROM {schema}.events e
     WHERE e.id = ANY (of_events)
     ORDER BY e.id
    ON CONFLICT DO NOTHING
$$;
