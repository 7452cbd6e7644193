-- Open a batch: add_to_batch fills it, over any number of transactions; close_batch lets it end.
--
-- type: the kind of work, a filter of lists; name is any text. then_send, otherwise_send, finally_send: a command, or an
-- array of commands, as in send_commands.
-- called by: send_batch, send_workflow, producers
-- roles: producer, worker
-- locks: the new rows
CREATE OR REPLACE FUNCTION {schema}.open_batch(
    name text, then_send jsonb DEFAULT NULL, otherwise_send jsonb DEFAULT NULL, finally_send jsonb DEFAULT NULL,
    expires_in interval DEFAULT '1 day', tenant text DEFAULT NULL, correlation_id text DEFAULT NULL,
    causation_id uuid DEFAULT NULL, traceparent text DEFAULT NULL, batch_id uuid DEFAULT NULL, type text DEFAULT '',
    OUT id bigint, OUT new_batch_id uuid
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    b {schema}.batches;
BEGIN
    IF expires_in <= interval '0' THEN
        RAISE EXCEPTION 'batch %: expires_in is %, and must be positive', quote_literal(name), expires_in
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    new_batch_id := coalesce(open_batch.batch_id, {schema}.new_uuid());
    INSERT INTO {schema}.batches
           (batch_id, name, type, tenant, awaited, correlation_id, causation_id, traceparent, expires_at)
    VALUES (new_batch_id, open_batch.name, coalesce(open_batch.type, ''), open_batch.tenant,
            coalesce(then_send, otherwise_send, finally_send) IS NOT NULL,
            coalesce(open_batch.correlation_id, new_batch_id::text), open_batch.causation_id,
            open_batch.traceparent, clock_timestamp() + expires_in)
    RETURNING * INTO b;
    id := b.id;
    PERFORM {schema}.add_continuations(b, then_send, 'succeeded') WHERE then_send IS NOT NULL;
    PERFORM {schema}.add_continuations(b, otherwise_send, 'failed') WHERE otherwise_send IS NOT NULL;
    PERFORM {schema}.add_continuations(b, finally_send, 'finished') WHERE finally_send IS NOT NULL;
END
$$;
