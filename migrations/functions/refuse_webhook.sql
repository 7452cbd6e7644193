-- Refuse a webhook with an invalid type or message id, or for an endpoint that does not exist.
-- called by: write_webhooks
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.refuse_webhook(type text, message_id text, endpoint text) RETURNS void
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    IF type IS NULL OR octet_length(type) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION 'a webhook of the type %', coalesce(quote_literal(left(type, 40)), 'NULL')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Name a type of 1 to 255 bytes, such as user.created.';
    END IF;
    -- The message id is signed in ID.TIME.BODY, and sent as a header.
    IF message_id !~ '^[!-\-/-~]{1,255}$' THEN
        RAISE EXCEPTION 'the message id %', quote_literal(left(message_id, 40))
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Give 1 to 255 printable ASCII characters without spaces and dots, or none: it is made then.';
    END IF;
    IF endpoint IS NOT NULL AND NOT EXISTS (SELECT FROM {schema}.endpoints e WHERE e.name = endpoint) THEN
        RAISE EXCEPTION 'there is no endpoint %', quote_literal(left(endpoint, 100))
            USING ERRCODE = 'invalid_parameter_value', HINT = 'inboxd endpoints list has their names.';
    END IF;
END
$$;
