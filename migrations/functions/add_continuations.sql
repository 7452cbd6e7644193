-- Insert the commands that run if a batch ends in the wanted way.
-- called by: open_batch
-- roles: none
-- locks: the new rows
CREATE OR REPLACE FUNCTION {schema}.add_continuations(b {schema}.batches, sent jsonb, wanted text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF jsonb_typeof(sent) = 'object' THEN
        sent := jsonb_build_array(sent);
    END IF;
    INSERT INTO {schema}.dependencies (needs, waiting, condition)
    SELECT b.batch_id, id, wanted
      FROM unnest({schema}.insert_members(sent, NULL, 'batch', b.id, 1, b.tenant, b.correlation_id,
                                          b.batch_id, b.traceparent)) AS id;
END
$$;
