-- Send one command.
--
-- duplicate: a command with this command_id exists, so nothing was written. on_conflict, if a command of this type with
-- this unique key is unsettled: keep (nothing is written; returns that command's id, as a duplicate), replace (that command
-- is cancelled, unless it runs), reject (the call fails).
-- called by: the daemon, producers
-- roles: producer, worker
-- locks: the new row; with a unique key, what resolve_unique_keys locks
CREATE OR REPLACE FUNCTION {schema}.send_command(
    type text, payload jsonb DEFAULT '{}', queue text DEFAULT NULL, command_id uuid DEFAULT NULL,
    schema_version integer DEFAULT 1, priority integer DEFAULT 0, run_at timestamptz DEFAULT NULL,
    deadline timestamptz DEFAULT NULL, max_attempts integer DEFAULT NULL, tenant text DEFAULT NULL,
    entity_type text DEFAULT NULL, entity_id text DEFAULT NULL, correlation_id text DEFAULT NULL,
    causation_id uuid DEFAULT NULL, traceparent text DEFAULT NULL,
    ordering_key text DEFAULT NULL, unique_key text DEFAULT NULL, on_conflict text DEFAULT 'keep',
    OUT id bigint, OUT new_command_id uuid, OUT duplicate boolean
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    IF send_command.type IN ('webhook.deliver', 'webhook.emitted') THEN
        PERFORM {schema}.refuse_deliveries(ARRAY[send_command.type]);
    END IF;
    IF send_command.unique_key IS NOT NULL THEN
        SELECT sent.id, sent.command_id, sent.duplicate
          INTO send_command.id, send_command.new_command_id, send_command.duplicate
          FROM {schema}.send_command_arrays(
               ARRAY[send_command.type], ARRAY[send_command.payload], ARRAY[send_command.queue],
               ARRAY[send_command.command_id], ARRAY[send_command.schema_version],
               ARRAY[send_command.priority], ARRAY[send_command.run_at], ARRAY[send_command.deadline],
               ARRAY[send_command.max_attempts], ARRAY[send_command.tenant], ARRAY[send_command.entity_type],
               ARRAY[send_command.entity_id], ARRAY[send_command.correlation_id],
               ARRAY[send_command.causation_id], ARRAY[send_command.traceparent],
               ARRAY[send_command.ordering_key], ARRAY[send_command.unique_key],
               ARRAY[send_command.on_conflict]) AS sent;
        RETURN;
    END IF;
    new_command_id := coalesce(send_command.command_id, {schema}.new_uuid());
    INSERT INTO {schema}.commands AS c
           (command_id, queue, type, schema_version, payload, priority, run_at, deadline, max_attempts,
            tenant, entity_type, entity_id, correlation_id, causation_id, traceparent,
            ordering_key)
    VALUES (new_command_id, send_command.queue, send_command.type, send_command.schema_version,
            coalesce(send_command.payload, '{}'), send_command.priority,
            coalesce(send_command.run_at, now()),
            send_command.deadline, send_command.max_attempts, send_command.tenant,
            send_command.entity_type, send_command.entity_id, send_command.correlation_id,
            send_command.causation_id, send_command.traceparent, send_command.ordering_key)
    ON CONFLICT (command_id) DO NOTHING
    RETURNING c.id INTO send_command.id;
    duplicate := send_command.id IS NULL;
    IF duplicate THEN
        SELECT c.id INTO send_command.id FROM {schema}.commands c WHERE c.command_id = new_command_id;
    END IF;
END
$$;
