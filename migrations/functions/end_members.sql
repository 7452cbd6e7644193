-- End one page of a batch's members that have not begun, and request the cancellation of those that run, if their worker is
-- alive.
--
-- Returns how many were ended, or the page's size if some are left: the next call, in another transaction, handles rows
-- that were claimed or released meanwhile.
-- called by: fold_batch
-- roles: none
-- locks: batches in it, in the order of ids; then the members and the rows that wait for them, as hold_ending does
CREATE OR REPLACE FUNCTION {schema}.end_members(batch bigint, ends text, page integer)
    RETURNS bigint LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    asked bigint[];
    unrun bigint[];
    moved bigint;
BEGIN
    WITH held AS MATERIALIZED (
        SELECT id FROM {schema}.batches
         WHERE parent_id = batch AND status IN ('pending', 'waiting', 'running') AND ending IS NULL
         ORDER BY id + 0 FOR NO KEY UPDATE
    ), never AS (
        UPDATE {schema}.batches b
           SET ending = ends, needs = 0, closed_at = coalesce(closed_at, clock_timestamp())
          FROM held WHERE b.id BETWEEN held.id AND held.id
        RETURNING b.id
    )
    INSERT INTO {schema}.batch_progress (batch_id) SELECT id FROM never;
    asked := {schema}.unasked_members(batch);
    unrun := ARRAY(SELECT id FROM {schema}.commands
                    WHERE batch_id BETWEEN batch AND batch AND status IN ('pending', 'waiting')
                    ORDER BY batch_id, id LIMIT page);
    PERFORM {schema}.hold_ending(asked || unrun, ARRAY['cancelled']);
    UPDATE {schema}.commands SET cancel_requested = true, updated_at = clock_timestamp()
     WHERE id = ANY (asked || unrun) AND status LIKE 'running' AND NOT cancel_requested;
    WITH gone AS (
        DELETE FROM {schema}.commands
         WHERE id = ANY (unrun) AND batch_id = batch AND status IN ('pending', 'waiting')
        RETURNING *
    )
    INSERT INTO {schema}.commands_history
           ({command but status, cancel_requested, updated_at},
            status, cancel_requested, updated_at, finished_at)
    SELECT {command but status, cancel_requested, updated_at},
           'cancelled', ends = 'cancelled', clock_timestamp(), clock_timestamp()
      FROM gone;
    GET DIAGNOSTICS moved = ROW_COUNT;
    IF moved < page AND (
        EXISTS (SELECT FROM {schema}.commands WHERE batch_id = batch AND status IN ('pending', 'waiting'))
        OR cardinality({schema}.unasked_members(batch)) > 0) THEN
        RETURN page;
    END IF;
    RETURN moved;
END
$$;
