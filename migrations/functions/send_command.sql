-- Send one command.
--
-- duplicate: a command with this command_id exists, so nothing was written. on_conflict, if a command of this type with
-- this unique key is unsettled: keep (nothing is written; returns that command's id, as a duplicate), replace (that command
-- is cancelled, unless it runs), reject (the call fails).
-- called by: the daemon, producers
-- roles: producer, worker
-- locks: the new row; with a unique key, what resolve_unique_keys locks
CREATE OR REPLACE FUNCTION {schema}.send_command(
    {each given command: NAME TYPE BY_DEFAULT},
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
               {each given command: NAMES => ARRAY[send_command.NAME]}) AS sent;
        RETURN;
    END IF;
    new_command_id := coalesce(send_command.command_id, {schema}.new_uuid());
    INSERT INTO {schema}.commands AS c
           (command_id, payload, run_at,
            {each stored command but command_id, payload, run_at, unique_key: NAME})
    VALUES (new_command_id, coalesce(send_command.payload, '{}'), coalesce(send_command.run_at, now()),
            {each stored command but command_id, payload, run_at, unique_key: send_command.NAME})
    ON CONFLICT (command_id) DO NOTHING
    RETURNING c.id INTO send_command.id;
    duplicate := send_command.id IS NULL;
    IF duplicate THEN
        SELECT c.id INTO send_command.id FROM {schema}.commands c WHERE c.command_id = new_command_id;
    END IF;
END
$$;
