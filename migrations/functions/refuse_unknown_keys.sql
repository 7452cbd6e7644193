-- Raise that an object of a JSON array has an unknown key.
-- called by: emit_events, insert_members, send_commands, send_webhooks
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.refuse_unknown_keys(items jsonb, known text[]) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place bigint;
    name  text;
BEGIN
    SELECT item.n, key INTO place, name
      FROM jsonb_array_elements(items) WITH ORDINALITY AS item(value, n)
     CROSS JOIN LATERAL jsonb_object_keys(item.value) AS key
     WHERE key <> ALL (known)
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'item % has the unknown key %', place, quote_ident(name)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'known: ' || array_to_string(known, ', ');
    END IF;
END
$$;
