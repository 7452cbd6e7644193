-- Release one page of a batch's members that waited for it. Returns how many were released.
-- called by: fold_batch
-- roles: none
-- locks: batches in it, then the members, both in the order of ids
CREATE OR REPLACE FUNCTION {schema}.start_members(batch bigint, page integer)
    RETURNS bigint LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    moved bigint;
BEGIN
    WITH held AS MATERIALIZED (
        SELECT id FROM {schema}.batches WHERE parent_id = batch AND status = 'waiting' AND needs > 0
         ORDER BY id + 0 FOR NO KEY UPDATE
    ), begun AS (
        UPDATE {schema}.batches b SET needs = needs - 1, starting = true
          FROM held WHERE b.id BETWEEN held.id AND held.id
        RETURNING b.id
    )
    INSERT INTO {schema}.batch_progress (batch_id) SELECT id FROM begun;
    UPDATE {schema}.commands c
       SET needs = 0, status = 'pending', run_at = greatest(c.run_at, clock_timestamp()), updated_at = clock_timestamp()
      FROM (SELECT id FROM {schema}.commands
             WHERE batch_id BETWEEN batch AND batch AND status <> 'running'
               AND status LIKE 'waiting' AND needs > 0
               AND NOT EXISTS (SELECT FROM {schema}.dependencies d WHERE d.waiting = command_id OFFSET 0)
             ORDER BY batch_id, id LIMIT page FOR UPDATE) AS picked
     WHERE c.id BETWEEN picked.id AND picked.id;
    GET DIAGNOSTICS moved = ROW_COUNT;
    IF moved > 0 THEN
        PERFORM {schema}.wake_commands();
    END IF;
    RETURN moved;
END
$$;
