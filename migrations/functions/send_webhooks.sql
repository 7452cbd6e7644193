-- Send webhooks from plain SQL: a JSON array of objects whose keys are the arguments of send_webhook. Returns the same as
-- send_webhook_arrays.
-- called by: producers
-- roles: producer, worker
-- locks: as write_webhooks
CREATE OR REPLACE FUNCTION {schema}.send_webhooks(webhooks jsonb)
    RETURNS TABLE (ordinal bigint, endpoint text, id bigint, command_id uuid, message_id text, duplicate boolean)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {schema}.refuse_unknown_keys(webhooks, ARRAY[
        'type', 'payload', 'message_id', 'endpoint', 'ordering_key', 'tenant', 'entity_type', 'entity_id',
        'occurred_at', 'run_at', 'correlation_id', 'causation_id', 'traceparent']);
    SELECT written.*
      FROM (SELECT array_agg(r.type) AS types, array_agg(r.payload) AS payloads,
                   array_agg(r.message_id) AS message_ids, array_agg(r.endpoint) AS endpoints,
                   array_agg(r.ordering_key) AS ordering_keys, array_agg(r.tenant) AS tenants,
                   array_agg(r.entity_type) AS entity_types, array_agg(r.entity_id) AS entity_ids,
                   array_agg(r.occurred_at) AS occurred_ats, array_agg(r.run_at) AS run_ats,
                   array_agg(r.correlation_id) AS correlation_ids, array_agg(r.causation_id) AS causation_ids,
                   array_agg(r.traceparent) AS traceparents
              FROM (SELECT value FROM jsonb_array_elements(webhooks) WITH ORDINALITY AS e(value, n)
                     ORDER BY n) AS item
             CROSS JOIN LATERAL jsonb_to_record(item.value) AS r(
                   type text, payload jsonb, message_id text, endpoint text, ordering_key text, tenant text,
                   entity_type text, entity_id text, occurred_at timestamptz, run_at timestamptz,
                   correlation_id text, causation_id uuid, traceparent text)) AS a
     CROSS JOIN LATERAL {schema}.send_webhook_arrays(
           a.types, a.payloads, a.message_ids, a.endpoints, a.ordering_keys, a.tenants, a.entity_types, a.entity_ids,
           a.occurred_ats, a.run_ats, a.correlation_ids, a.causation_ids, a.traceparents) AS written
     ORDER BY written.ordinal, written.endpoint
$$;
