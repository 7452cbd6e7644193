-- Write a page of events, each with its origin. Returns a row for each, in the given order, as emit_event does.
--
-- One array a column, as long as the first; NULL for a column that no row fills. Events of the mode `single` are resolved
-- here, a page at once; the trigger handles events in lines, and keys that another event has. Keys are recorded in the
-- order of keys, and events with an event_id from their producer are inserted in the order of ids and topics, so that
-- producers with the same keys do not deadlock. Events in lines keep the given order, which is their order in the line. An
-- event that was not written, or was in the page before, is looked up in each of its topics, since it may have taken a key
-- in each.
--
-- The page is joined with itself by hashing, also in the daemon's sessions, which otherwise join by nested loops only (ADR
-- 16): 1,000 rows would need a million comparisons.
-- called by: emit_event_arrays, store_messages, write_received, the daemon
-- roles: worker
-- locks: the events' records in dedup, for which it waits; the new rows
CREATE OR REPLACE FUNCTION {schema}.write_events(
    types text[], payloads jsonb[], topics text[] DEFAULT NULL, event_ids uuid[] DEFAULT NULL,
    schema_versions integer[] DEFAULT NULL, sources text[] DEFAULT NULL, tenants text[] DEFAULT NULL,
    entity_types text[] DEFAULT NULL, entity_ids text[] DEFAULT NULL, headers jsonb[] DEFAULT NULL,
    correlation_ids text[] DEFAULT NULL, causation_ids uuid[] DEFAULT NULL,
    traceparents text[] DEFAULT NULL, occurred_ats timestamptz[] DEFAULT NULL,
    run_ats timestamptz[] DEFAULT NULL, modes text[] DEFAULT NULL, ordering_keys text[] DEFAULT NULL,
    dedup_keys text[] DEFAULT NULL, origin_kinds text[] DEFAULT NULL, origin_ids bigint[] DEFAULT NULL
) RETURNS TABLE (ordinal bigint, id bigint, event_id uuid, duplicate boolean, conflict boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_hashjoin = on AS $$
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
