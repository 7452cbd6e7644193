-- The id of the command that delivers a message to an endpoint, if the message id was chosen.
-- called by: write_webhooks
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.delivery_id(message_id text, endpoint text) RETURNS uuid
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT encode(substring(sha256(convert_to('inboxd webhook ' || endpoint || ' ' || message_id, 'UTF8')) FOR 16),
                  'hex')::uuid
$$;
