-- Events that handlers emit: written as producers' events are, and they say what emitted them.
-- oldest code: 4
--
-- An event that goes to several topics is several rows with one event_id, so the causation_id of what they bring
-- about does not tell them apart. Commands say by origin_kind and origin_id which row sent them; so do events now.
-- Both are NULL for what a producer wrote, and nobody but the worker's role can give them.

ALTER TABLE {schema}.events ADD COLUMN origin_kind text, ADD COLUMN origin_id bigint;
ALTER TABLE {schema}.events_history ADD COLUMN origin_kind text, ADD COLUMN origin_id bigint;

-- A partition that is detached, to be dropped, may be attached again.
DO $do$
DECLARE
    detached text;
BEGIN
    FOR detached IN
        SELECT r.part FROM {schema}.retired r
          JOIN pg_class c ON c.oid = to_regclass(format('{schema}.%I', r.part)) AND NOT c.relispartition
         WHERE r.parent = 'events_history' AND r.dropped_at IS NULL
    LOOP
        EXECUTE format('ALTER TABLE {schema}.%I ADD COLUMN IF NOT EXISTS origin_kind text, '
                       'ADD COLUMN IF NOT EXISTS origin_id bigint', detached);
    END LOOP;
END
$do$;

-- As 0008 has it, but: events say what emitted them.
CREATE OR REPLACE VIEW {schema}.story AS
SELECT true AS hot, 'event' AS kind, id, event_id AS uuid, type, topic AS lane, status, attempts::integer,
       created_at, NULL::timestamptz AS started_at, NULL::timestamptz AS finished_at,
       NULL::interval AS duration, run_at, origin_kind, origin_id,
       causation_id, coalesce(correlation_id, event_id::text) AS correlation_id, traceparent,
       NULL::bigint AS batch_id, NULL::bigint AS replay_of, tenant, source, NULL::uuid AS worker_id,
       left(errors -> -1 ->> 'error', 200) AS error, NULL::jsonb AS counts
  FROM {schema}.events
UNION ALL
SELECT false, 'event', id, event_id, type, topic, status, attempts, created_at, NULL, finished_at,
       duration, run_at, origin_kind, origin_id, causation_id, coalesce(correlation_id, event_id::text), traceparent,
       NULL, NULL, tenant, source, worker_id, left(errors -> -1 ->> 'error', 200), NULL
  FROM {schema}.events_history
UNION ALL
SELECT true, 'command', id, command_id, type, queue, status, attempts, created_at, started_at, NULL,
       NULL, run_at, origin_kind, origin_id, causation_id, coalesce(correlation_id, command_id::text),
       traceparent, batch_id, replay_of, tenant, NULL, worker_id, left(errors -> -1 ->> 'error', 200), NULL
  FROM {schema}.commands
UNION ALL
SELECT false, 'command', id, command_id, type, queue, status, attempts, created_at, started_at,
       finished_at, duration, run_at, origin_kind, origin_id, causation_id,
       coalesce(correlation_id, command_id::text), traceparent, batch_id, replay_of, tenant, NULL, worker_id,
       CASE WHEN status = 'cancelled' AND NOT cancel_requested THEN 'skipped: not needed'
            ELSE left(errors -> -1 ->> 'error', 200) END, NULL
  FROM {schema}.commands_history
UNION ALL
SELECT status IN ('pending', 'waiting', 'running', 'failed'), 'batch', id, batch_id, name, kind, status, 0,
       created_at, NULL, finished_at, finished_at - created_at, NULL, origin_kind, origin_id, causation_id,
       coalesce(correlation_id, batch_id::text), traceparent, parent_id, NULL, tenant, NULL, NULL, NULL,
       jsonb_build_object('size', size, 'succeeded', succeeded, 'failed', failed, 'cancelled', cancelled,
                          'skipped', skipped, 'open', closed_at IS NULL)
  FROM {schema}.batches;

-- ------------------------------------------------------------------------------------- bounds

-- As 0023 has it, but: what an event inherits from the row whose handler emitted it was accepted once; what the
-- handler gives itself is checked by ctx.emit.
DROP TRIGGER events_above_text ON {schema}.events;
CREATE TRIGGER events_above_text BEFORE INSERT ON {schema}.events FOR EACH ROW
    WHEN (greatest(octet_length(NEW.type), octet_length(NEW.topic), octet_length(NEW.source),
                   octet_length(NEW.ordering_key), octet_length(NEW.dedup_key), octet_length(NEW.entity_type),
                   octet_length(NEW.entity_id), octet_length(NEW.tenant), octet_length(NEW.correlation_id),
                   octet_length(NEW.traceparent)) > 255
          AND (NEW.origin_kind IS NULL
               OR greatest(octet_length(NEW.type), octet_length(NEW.topic), octet_length(NEW.source),
                           octet_length(NEW.ordering_key), octet_length(NEW.dedup_key),
                           octet_length(NEW.entity_type), octet_length(NEW.entity_id)) > 255))
    EXECUTE FUNCTION {schema}.refuse_long('type', 'topic', 'source', 'ordering_key', 'dedup_key', 'entity_type',
        'entity_id', 'tenant', 'correlation_id', 'traceparent');

-- ------------------------------------------------------------------------------------ writing

-- emit_event_arrays as 0019 has it, and with it what emitted each event.
CREATE FUNCTION {schema}.write_events(
    types text[], payloads jsonb[], topics text[] DEFAULT NULL, event_ids uuid[] DEFAULT NULL,
    schema_versions integer[] DEFAULT NULL, sources text[] DEFAULT NULL, tenants text[] DEFAULT NULL,
    entity_types text[] DEFAULT NULL, entity_ids text[] DEFAULT NULL, headers jsonb[] DEFAULT NULL,
    correlation_ids text[] DEFAULT NULL, causation_ids uuid[] DEFAULT NULL,
    traceparents text[] DEFAULT NULL, occurred_ats timestamptz[] DEFAULT NULL,
    run_ats timestamptz[] DEFAULT NULL, modes text[] DEFAULT NULL, ordering_keys text[] DEFAULT NULL,
    dedup_keys text[] DEFAULT NULL, origin_kinds text[] DEFAULT NULL, origin_ids bigint[] DEFAULT NULL
) RETURNS TABLE (ordinal bigint, id bigint, event_id uuid, duplicate boolean, conflict boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.refuse_ragged(
        cardinality(types), cardinality(payloads), cardinality(topics), cardinality(event_ids),
        cardinality(schema_versions), cardinality(sources), cardinality(tenants),
        cardinality(entity_types), cardinality(entity_ids), cardinality(headers),
        cardinality(correlation_ids), cardinality(causation_ids), cardinality(traceparents),
        cardinality(occurred_ats), cardinality(run_ats), cardinality(modes), cardinality(ordering_keys),
        cardinality(dedup_keys), cardinality(origin_kinds), cardinality(origin_ids));
    RETURN QUERY
    WITH resolved AS MATERIALIZED (  -- again: the page has this event_id for this topic already
        SELECT g.*, r.topic,
               row_number() OVER (PARTITION BY g.event_id, r.topic ORDER BY g.ordinal) > 1 AS again,
               coalesce(g.mode, 'single') = 'single' AND coalesce(t.mode, 'single') = 'single' AS single,
               coalesce(g.given_key, {schema}.declared_key(t.dedup_path, g.event_id, g.payload)) AS dedup_key
          FROM (SELECT u.*, coalesce(u.given_id, {schema}.new_uuid()) AS event_id
                  FROM unnest(types, payloads, topics, event_ids, schema_versions, sources, tenants,
                              entity_types, entity_ids, headers, correlation_ids, causation_ids, traceparents,
                              occurred_ats, run_ats, modes, ordering_keys, dedup_keys, origin_kinds,
                              origin_ids) WITH ORDINALITY
                       AS u(type, payload, given_topic, given_id, schema_version, source, tenant, entity_type,
                            entity_id, headers, correlation_id, causation_id, traceparent, occurred_at,
                            run_at, mode, ordering_key, given_key, origin_kind, origin_id, ordinal)) AS g
          LEFT JOIN {schema}.subscriptions s ON s.type = g.type AND g.given_topic IS NULL
         CROSS JOIN LATERAL (SELECT coalesce(g.given_topic, s.topic, 'default') AS topic) AS r
          LEFT JOIN {schema}.topics t ON t.name = r.topic
    ), recorded AS (
        INSERT INTO {schema}.dedup (topic, source, key, event_id, body_hash)
        SELECT topic, coalesce(source, ''), dedup_key, event_id,
               {schema}.body_hash(type, coalesce(schema_version, 1), coalesce(payload, '{}'))
          FROM resolved WHERE dedup_key IS NOT NULL
         ORDER BY dedup_key COLLATE "C", topic COLLATE "C", coalesce(source, '') COLLATE "C", ordinal
        ON CONFLICT DO NOTHING
        RETURNING topic, source, key, event_id
    ), written AS (
        INSERT INTO {schema}.events
               (event_id, topic, mode, type, schema_version, source, ordering_key, bucket, dedup_key, tenant,
                entity_type, entity_id, payload, headers, correlation_id, causation_id, traceparent,
                occurred_at, run_at, origin_kind, origin_id)
        SELECT g.event_id, g.topic, CASE WHEN g.single THEN 'single' ELSE g.mode END, g.type,
               coalesce(g.schema_version, 1), g.source, g.ordering_key,
               CASE WHEN g.dedup_key IS NOT NULL AND NOT g.leads THEN NULL
                    WHEN g.single THEN 0
                    WHEN g.dedup_key IS NOT NULL THEN -1 END,
               g.dedup_key, g.tenant, g.entity_type, g.entity_id, coalesce(g.payload, '{}'), g.headers,
               g.correlation_id, g.causation_id, g.traceparent, coalesce(g.occurred_at, now()),
               coalesce(g.run_at, now()), g.origin_kind, g.origin_id
          FROM (SELECT o.*,  -- leads: its key was recorded, first of those of its event_id
                       r.key IS NOT NULL
                       AND row_number() OVER (PARTITION BY r.event_id, r.topic ORDER BY o.ordinal) = 1 AS leads
                  FROM resolved o
                  LEFT JOIN recorded r ON r.event_id = o.event_id AND r.key = o.dedup_key
                                      AND r.topic = o.topic AND r.source = coalesce(o.source, '')) AS g
         ORDER BY CASE WHEN g.single THEN g.given_id END,
                  CASE WHEN g.single AND g.given_id IS NOT NULL THEN g.topic END COLLATE "C", g.ordinal
        ON CONFLICT (event_id, topic) DO NOTHING
        RETURNING id, event_id, topic, status
    )
    SELECT DISTINCT ON (a.ordinal)
           a.ordinal, coalesce(a.id, (a.known).id), coalesce((a.known).event_id, a.event_id),
           a.id IS NULL OR a.again, coalesce((a.known).conflict, a.status = 'failed')
      FROM (SELECT g.ordinal, g.topic, g.event_id, g.again, w.id, w.status,
                   CASE WHEN w.id IS NULL OR g.again
                        THEN {schema}.unwritten_event(types[g.ordinal], schema_versions[g.ordinal], g.topic,
                                                  sources[g.ordinal], g.dedup_key, g.event_id, payloads[g.ordinal])
                   END AS known
              FROM resolved g LEFT JOIN written w ON w.event_id = g.event_id AND w.topic = g.topic
            OFFSET 0) AS a
     ORDER BY a.ordinal, a.topic;
END
$$;

-- As 0019 has it for those who call it: the one above without an origin.
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

-- --------------------------------------------------------------------------------- privileges

REVOKE EXECUTE ON FUNCTION {schema}.write_events FROM PUBLIC;

DO $do$
BEGIN
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT EXECUTE ON FUNCTION {schema}.write_events TO {schema}_worker;
    END IF;
END
$do$;
