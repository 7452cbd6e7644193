-- Send one webhook: a command `webhook.deliver` for each enabled endpoint whose types match, in the caller's transaction.
-- Returns a row for each; none if no endpoint matches.
--
-- message_id: a repeated one writes nothing for an endpoint that has it (duplicate). endpoint: only this one, whatever its
-- types are. occurred_at is the timestamp that the endpoint reads.
-- called by: the daemon, producers
-- roles: producer, worker
-- locks: as write_webhooks
CREATE OR REPLACE FUNCTION {schema}.send_webhook(
    type text, payload jsonb DEFAULT '{}', ordering_key text DEFAULT NULL, message_id text DEFAULT NULL,
    tenant text DEFAULT NULL, endpoint text DEFAULT NULL, occurred_at timestamptz DEFAULT NULL,
    run_at timestamptz DEFAULT NULL, entity_type text DEFAULT NULL, entity_id text DEFAULT NULL,
    correlation_id text DEFAULT NULL, causation_id uuid DEFAULT NULL, traceparent text DEFAULT NULL
) RETURNS TABLE (to_endpoint text, id bigint, command_id uuid, new_message_id text, duplicate boolean)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT w.endpoint, w.id, w.command_id, w.message_id, w.duplicate
      FROM {schema}.write_webhooks(
           ARRAY[send_webhook.type], ARRAY[send_webhook.payload], ARRAY[send_webhook.message_id],
           ARRAY[send_webhook.endpoint], ARRAY[send_webhook.ordering_key], ARRAY[send_webhook.tenant],
           ARRAY[send_webhook.entity_type], ARRAY[send_webhook.entity_id], ARRAY[send_webhook.occurred_at],
           ARRAY[send_webhook.run_at], ARRAY[send_webhook.correlation_id], ARRAY[send_webhook.causation_id],
           ARRAY[send_webhook.traceparent]) AS w
     ORDER BY w.endpoint
$$;
