-- Send a whole batch at once: open_batch, add_to_batch, close_batch.
-- called by: producers
-- roles: producer, worker
-- locks: the new rows
CREATE OR REPLACE FUNCTION {schema}.send_batch(
    name text, commands jsonb, then_send jsonb DEFAULT NULL, otherwise_send jsonb DEFAULT NULL,
    finally_send jsonb DEFAULT NULL, tenant text DEFAULT NULL, correlation_id text DEFAULT NULL,
    causation_id uuid DEFAULT NULL, traceparent text DEFAULT NULL, batch_id uuid DEFAULT NULL, type text DEFAULT '',
    OUT id bigint, OUT new_batch_id uuid
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    SELECT o.id, o.new_batch_id INTO send_batch.id, send_batch.new_batch_id
      FROM {schema}.open_batch(send_batch.name, then_send, otherwise_send, finally_send, '1 day',
               send_batch.tenant, send_batch.correlation_id, send_batch.causation_id,
               send_batch.traceparent, send_batch.batch_id, send_batch.type) AS o;
    PERFORM {schema}.add_to_batch(new_batch_id, commands);
    PERFORM {schema}.close_batch(new_batch_id);
END
$$;
