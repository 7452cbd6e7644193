-- Add commands (as for send_commands) to an open batch; returns their number.
-- called by: send_batch, producers
-- roles: producer, worker
-- locks: the batch's row, KEY SHARE; the new rows
CREATE OR REPLACE FUNCTION {schema}.add_to_batch(batch uuid, commands jsonb) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    b     {schema}.batches := {schema}.hold_open_batch(batch);
    added integer;
BEGIN
    added := cardinality({schema}.insert_members(
        commands, b.id, 'api', NULL, (b.status = 'waiting')::integer, b.tenant, b.correlation_id,
        b.batch_id, b.traceparent));
    INSERT INTO {schema}.batch_progress (batch_id, size) VALUES (b.id, added);
    RETURN added;
END
$$;
