-- Send webhooks as write_webhooks does, without their origins.
-- called by: send_webhooks, producers
-- roles: producer, worker
-- locks: as write_webhooks
CREATE OR REPLACE FUNCTION {schema}.send_webhook_arrays(
    types text[], payloads jsonb[], message_ids text[] DEFAULT NULL, endpoints text[] DEFAULT NULL,
    ordering_keys text[] DEFAULT NULL, tenants text[] DEFAULT NULL, entity_types text[] DEFAULT NULL,
    entity_ids text[] DEFAULT NULL, occurred_ats timestamptz[] DEFAULT NULL, run_ats timestamptz[] DEFAULT NULL,
    correlation_ids text[] DEFAULT NULL, causation_ids uuid[] DEFAULT NULL, traceparents text[] DEFAULT NULL
) RETURNS TABLE (ordinal bigint, endpoint text, id bigint, command_id uuid, message_id text, duplicate boolean)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT w.ordinal, w.endpoint, w.id, w.command_id, w.message_id, w.duplicate
      FROM {schema}.write_webhooks(
           types, payloads, message_ids, endpoints, ordering_keys, tenants, entity_types, entity_ids, occurred_ats,
           run_ats, correlation_ids, causation_ids, traceparents) AS w
     ORDER BY w.ordinal, w.endpoint
$$;
