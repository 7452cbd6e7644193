-- Refuse deliveries, which only send_webhook writes, and webhook.emitted, which only events_emitted writes.
-- called by: insert_members, refuse_delivery, send_command, send_command_arrays
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.refuse_deliveries(types text[]) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF 'webhook.emitted' = ANY (types) THEN
        RAISE EXCEPTION 'commands of the type webhook.emitted are written with emitted events alone'
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Emit the event: endpoints that ask for its type get it.';
    END IF;
    IF 'webhook.deliver' = ANY (types) THEN
        RAISE EXCEPTION 'commands of the type webhook.deliver are written by send_webhook alone'
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Call send_webhook, with endpoint where one alone is to get it.';
    END IF;
END
$$;
