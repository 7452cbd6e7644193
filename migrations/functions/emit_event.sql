-- Emit one event.
--
-- duplicate: nothing was written, since an event with this event_id is unsettled, or one with this dedup key is known;
-- id (NULL once it is settled) and event_id are those of that event. conflict: the event that has the key has other
-- content, and this one is a dead letter; if both are true, that dead letter existed already, and is returned. For an
-- event that goes to several topics they describe the first one.
-- called by: the daemon, producers
-- roles: producer, worker
-- locks: its record in dedup, for which it waits; the new rows
CREATE OR REPLACE FUNCTION {schema}.emit_event(
    type text, payload jsonb DEFAULT '{}', topic text DEFAULT NULL, event_id uuid DEFAULT NULL,
    schema_version integer DEFAULT 1, source text DEFAULT NULL, tenant text DEFAULT NULL,
    entity_type text DEFAULT NULL, entity_id text DEFAULT NULL, headers jsonb DEFAULT NULL,
    correlation_id text DEFAULT NULL, causation_id uuid DEFAULT NULL, traceparent text DEFAULT NULL,
    occurred_at timestamptz DEFAULT NULL, run_at timestamptz DEFAULT NULL,
    mode text DEFAULT NULL, ordering_key text DEFAULT NULL, dedup_key text DEFAULT NULL,
    OUT id bigint, OUT new_event_id uuid, OUT duplicate boolean, OUT conflict boolean
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    new_event_id := coalesce(emit_event.event_id, {schema}.new_uuid());
    INSERT INTO {schema}.events AS e
           (event_id, topic, mode, type, schema_version, source, ordering_key, dedup_key, tenant, entity_type,
            entity_id, payload, headers, correlation_id, causation_id, traceparent, occurred_at, run_at)
    VALUES (new_event_id, emit_event.topic, emit_event.mode, emit_event.type,
            emit_event.schema_version, emit_event.source, emit_event.ordering_key, emit_event.dedup_key,
            emit_event.tenant, emit_event.entity_type, emit_event.entity_id, coalesce(emit_event.payload, '{}'),
            emit_event.headers, emit_event.correlation_id, emit_event.causation_id, emit_event.traceparent,
            coalesce(emit_event.occurred_at, now()), coalesce(emit_event.run_at, now()))
    ON CONFLICT (event_id, topic) DO NOTHING
    RETURNING e.id, e.status = 'failed' INTO emit_event.id, emit_event.conflict;
    duplicate := emit_event.id IS NULL;
    IF duplicate THEN
        SELECT k.id, k.event_id, k.conflict INTO emit_event.id, new_event_id, emit_event.conflict
          FROM {schema}.unwritten_event(emit_event.type, emit_event.schema_version, emit_event.topic, emit_event.source,
                                    emit_event.dedup_key, new_event_id, emit_event.payload) AS k;
    END IF;
END
$$;
