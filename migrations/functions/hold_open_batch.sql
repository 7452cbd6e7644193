-- Lock the batch to which a member is added. Raises if no member may be added; another login's batch counts as missing.
--
-- An appender holds the batch FOR KEY SHARE: that blocks a close, which takes the row FOR UPDATE, but no fold.
-- called by: add_to_batch, the daemon
-- roles: worker
-- locks: the batch's row, KEY SHARE
CREATE OR REPLACE FUNCTION {schema}.hold_open_batch(batch uuid) RETURNS {schema}.batches
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    b {schema}.batches;
BEGIN
    SELECT * INTO b FROM {schema}.batches WHERE batch_id = batch AND {schema}.is_of_login(sender) FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no batch %', batch USING ERRCODE = 'IB004',
            HINT = 'Use the id that open_batch returned, after its transaction has committed.';
    ELSIF b.ending IS NOT NULL THEN
        RAISE EXCEPTION 'batch % (%) was cancelled: nothing can be added', b.id, b.name
            USING ERRCODE = 'IB005', HINT = 'Open another batch.';
    ELSIF b.closed_at IS NOT NULL THEN
        RAISE EXCEPTION 'batch % (%) is closed: nothing can be added', b.id, b.name
            USING ERRCODE = 'IB005', HINT = 'Open it with open_batch, add, and close it last.';
    ELSIF b.expired_at IS NOT NULL THEN
        RAISE EXCEPTION 'batch % (%) expired at %: it was left open too long', b.id, b.name, b.expired_at
            USING ERRCODE = 'IB005', HINT = 'Close it or cancel it; open the next one with a later expiry.';
    END IF;
    RETURN b;
END
$$;
