-- Write a page of webhooks, each with its origin: a command `webhook.deliver` for each enabled endpoint whose types match.
-- Returns a row for each delivery, in the given order; none for a webhook without such an endpoint.
--
-- One array a column, as long as the first; NULL for a column that no row fills. All deliveries of a webhook have its
-- message id. If the sender chose the message id, each endpoint gets one delivery of it for as long as history has it: the
-- command's id is made of both. Since deliveries move to history meanwhile, sent_webhooks decides, from which no row moves;
-- history is read for older message ids, which sent_webhooks has forgotten. A sender of the same message id waits until the
-- other one has committed; ids are written in their order, so that two pages with the same ids do not deadlock.
--
-- emitted: the webhook comes from an emitted event, so only endpoints that ask for events get it.
--
-- The page is joined with itself by hashing, also in the daemon's sessions, as in write_events.
-- called by: send_webhook, send_webhook_arrays, the daemon
-- roles: worker
-- locks: in sent_webhooks, the deliveries whose message id was chosen, for which it waits; the new rows
CREATE OR REPLACE FUNCTION {schema}.write_webhooks(
    types text[], payloads jsonb[], message_ids text[] DEFAULT NULL, endpoints text[] DEFAULT NULL,
    ordering_keys text[] DEFAULT NULL, tenants text[] DEFAULT NULL, entity_types text[] DEFAULT NULL,
    entity_ids text[] DEFAULT NULL, occurred_ats timestamptz[] DEFAULT NULL, run_ats timestamptz[] DEFAULT NULL,
    correlation_ids text[] DEFAULT NULL, causation_ids uuid[] DEFAULT NULL, traceparents text[] DEFAULT NULL,
    origin_kinds text[] DEFAULT NULL, origin_ids bigint[] DEFAULT NULL, emitted boolean[] DEFAULT NULL
) RETURNS TABLE (ordinal bigint, endpoint text, id bigint, command_id uuid, message_id text, duplicate boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC'
    SET enable_hashjoin = on SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.refuse_ragged(
        cardinality(types), cardinality(payloads), cardinality(message_ids), cardinality(endpoints),
        cardinality(ordering_keys), cardinality(tenants), cardinality(entity_types), cardinality(entity_ids),
        cardinality(occurred_ats), cardinality(run_ats), cardinality(correlation_ids), cardinality(causation_ids),
        cardinality(traceparents), cardinality(origin_kinds), cardinality(origin_ids), cardinality(emitted));
    PERFORM {schema}.refuse_webhook(g.type, g.message_id, g.endpoint)
       FROM unnest(types, message_ids, endpoints) AS g(type, message_id, endpoint);
    RETURN QUERY
    WITH given AS MATERIALIZED (
        SELECT s.*, e.name AS endpoint, CASE WHEN e.ordered THEN s.ordering_key END AS line,
               CASE WHEN s.given_id IS NULL THEN {schema}.new_uuid()
                    ELSE {schema}.delivery_id(s.given_id, e.name) END AS command_id
          FROM (SELECT u.*, coalesce(u.given_id, 'msg_' || replace({schema}.new_uuid()::text, '-', '')) AS message_id
                  FROM unnest(types, payloads, message_ids, endpoints, ordering_keys, tenants, entity_types, entity_ids,
                              occurred_ats, run_ats, correlation_ids, causation_ids, traceparents, origin_kinds,
                              origin_ids, emitted) WITH ORDINALITY
                       AS u(type, payload, given_id, given_endpoint, ordering_key, tenant, entity_type, entity_id,
                            occurred_at, run_at, correlation_id, causation_id, traceparent, origin_kind, origin_id,
                            emitted, ordinal)) AS s
          JOIN {schema}.endpoints e
            ON e.enabled AND (e.tenant IS NULL OR e.tenant = s.tenant) AND (e.events OR s.emitted IS NOT TRUE)
           AND CASE WHEN s.given_endpoint IS NOT NULL THEN e.name = s.given_endpoint
                    ELSE s.type = ANY (e.types)
                         OR EXISTS (SELECT FROM unnest(e.types) AS t(pattern)
                                     WHERE right(t.pattern, 1) = '*' AND starts_with(s.type, left(t.pattern, -1))) END
    ), ended AS MATERIALIZED (
        SELECT s.command_id
          FROM (SELECT array_agg(g.command_id) AS ids FROM given g WHERE g.given_id IS NOT NULL) AS chosen
         CROSS JOIN LATERAL {schema}.settled_commands(chosen.ids) s WHERE chosen.ids IS NOT NULL
    ), first AS (
        INSERT INTO {schema}.sent_webhooks (command_id)
        SELECT DISTINCT g.command_id FROM given g
         WHERE g.given_id IS NOT NULL
           AND NOT EXISTS (SELECT FROM ended WHERE ended.command_id = g.command_id)
         ORDER BY g.command_id
        ON CONFLICT DO NOTHING
        RETURNING command_id
    ), written AS (
        INSERT INTO {schema}.commands AS c
               (command_id, queue, type, payload, run_at, tenant, entity_type, entity_id, correlation_id, causation_id,
                traceparent, ordering_key, origin_kind, origin_id)
        SELECT g.command_id, 'webhooks.' || g.endpoint, 'webhook.deliver',
               jsonb_build_object('endpoint', g.endpoint, 'id', g.message_id, 'type', g.type,
                                  'timestamp', to_char(coalesce(g.occurred_at, statement_timestamp()),
                                                       'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
                                  'data', coalesce(g.payload, '{}')),
               coalesce(g.run_at, statement_timestamp()), g.tenant, g.entity_type, g.entity_id, g.correlation_id, g.causation_id,
               g.traceparent, g.line, coalesce(g.origin_kind, 'api'), g.origin_id
          FROM given g
         WHERE g.given_id IS NULL OR g.command_id IN (SELECT f.command_id FROM first f)
         ORDER BY g.given_id COLLATE "C", g.ordinal, g.endpoint
        ON CONFLICT (command_id) DO NOTHING
        RETURNING c.id, c.command_id
    )
    SELECT g.ordinal, g.endpoint, coalesce(w.id, kept.id), g.command_id, g.message_id,
           w.id IS NULL OR row_number() OVER (PARTITION BY g.command_id ORDER BY g.ordinal) > 1
      FROM given g LEFT JOIN written w ON w.command_id = g.command_id
      LEFT JOIN LATERAL {schema}.kept_command(g.command_id, 'webhook.deliver', NULL) kept ON w.id IS NULL
     ORDER BY g.ordinal, g.endpoint;
END
$$;
