-- Close a batch: no more members can be added. Waits for transactions that add some. Raises for another login's batch.
-- called by: send_batch, send_workflow, the daemon, producers
-- roles: operator, producer, worker
-- locks: the batch's row
CREATE OR REPLACE FUNCTION {schema}.close_batch(batch uuid) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    b {schema}.batches;
BEGIN
    SELECT * INTO b FROM {schema}.batches WHERE batch_id = batch AND {schema}.is_of_login(sender) FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no batch %', batch USING ERRCODE = 'IB004';
    ELSIF b.closed_at IS NOT NULL THEN
        RAISE EXCEPTION 'batch % (%) is closed already', b.id, b.name USING ERRCODE = 'IB005';
    END IF;
    UPDATE {schema}.batches SET closed_at = clock_timestamp(), updated_at = clock_timestamp() WHERE id = b.id;
    PERFORM {schema}.fold_batch(b.id);
    INSERT INTO {schema}.batch_progress (batch_id)  -- the workers' folds see to its parent and its pages
    SELECT b.id WHERE b.parent_id IS NOT NULL OR b.starting;
END
$$;
