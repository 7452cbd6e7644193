-- Copy an event to the topics after its first: each is accepted by itself, as if its producer had named that topic.
--
-- If a copy was not written, its recorded key is deleted.
-- called by: accept_event
-- roles: none
-- locks: the new rows
CREATE OR REPLACE FUNCTION {schema}.copy_event_to(given {schema}.events, copies bigint) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    written bigint;
BEGIN
    INSERT INTO {schema}.events
           (event_id, topic, mode, type, schema_version, source, ordering_key, dedup_key, tenant, entity_type,
            entity_id, payload, headers, correlation_id, causation_id, traceparent, status, run_at, body_id,
            body_at, body_bytes, occurred_at, created_at)
    SELECT given.event_id, s.topic, given.mode, given.type, given.schema_version, given.source,
           given.ordering_key, given.dedup_key, given.tenant, given.entity_type, given.entity_id,
           given.payload, given.headers, given.correlation_id, given.causation_id, given.traceparent,
           given.status, given.run_at, given.body_id, given.body_at, given.body_bytes, given.occurred_at,
           given.created_at
      FROM {schema}.subscriptions s
     WHERE s.type = given.type AND s.topic > given.topic ORDER BY s.topic
    ON CONFLICT (event_id, topic) DO NOTHING;
    GET DIAGNOSTICS written = ROW_COUNT;
    IF written < copies THEN
        PERFORM {schema}.unwritten_event(given.type, given.schema_version, s.topic, given.source, given.dedup_key,
                                     given.event_id, given.payload)
           FROM {schema}.subscriptions s WHERE s.type = given.type AND s.topic > given.topic;
    END IF;
END
$$;
