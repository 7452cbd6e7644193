-- Add up the progress of a batch, decide its status, release rows that waited for it; and start or end one page of its
-- members, if it is starting or ending.
--
-- The row is locked first, and read and folded in later statements, which see the result of a concurrent fold. more: there
-- are more members to start or to end, call again; a call that ends members releases nothing, so that all its locks are
-- taken in order (hold_in_order). parent: the batch to fold next; it is not locked here, so that folds do not deadlock with
-- cancellations, which go from parents to members.
-- called by: close_batch, the daemon
-- roles: operator, worker
-- locks: the batch's row; then what start_members, end_members or release lock
CREATE OR REPLACE FUNCTION {schema}.fold_batch(
    batch bigint, page integer DEFAULT 1000,
    OUT status text, OUT unsettled bigint, OUT more boolean, OUT parent bigint
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    b       record;
    d       record;
    moved   bigint := 0;
    outcome text;
    was     text;
    stuck   boolean;
BEGIN
    more := false;
    SELECT * INTO b FROM {schema}.batches WHERE id = batch FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    was := b.status;
    IF b.needs > 0 AND b.ending IS NULL THEN  -- prerequisites that have ended
        WITH gone AS (
            DELETE FROM {schema}.batch_progress WHERE batch_id = batch AND (met > 0 OR ending IS NOT NULL)
            RETURNING met, ending
        )
        SELECT coalesce(sum(met), 0) AS met, min(ending) AS ending INTO d FROM gone;
        b.needs := CASE WHEN d.ending IS NULL THEN greatest(b.needs - d.met, 0) ELSE 0 END;
        b.starting := b.starting OR d.ending IS NULL AND b.needs = 0;
        b.ending := d.ending;
    END IF;
    IF b.ending IS NOT NULL THEN
        b.closed_at := coalesce(b.closed_at, clock_timestamp());
        moved := {schema}.end_members(b.id, b.ending, page);
        more := moved > 0;
    ELSIF b.starting THEN
        moved := {schema}.start_members(b.id, page);
        more := moved >= page;
    END IF;
    WITH gone AS (  -- prerequisites may end at any time
        DELETE FROM {schema}.batch_progress WHERE batch_id = batch AND (b.needs = 0 OR met = 0 AND ending IS NULL)
        RETURNING *
    )
    SELECT coalesce(sum(size), 0) AS size, coalesce(sum(succeeded), 0) AS succeeded,
           coalesce(sum(failed), 0) AS failed, coalesce(sum(cancelled), 0) AS cancelled,
           coalesce(sum(skipped), 0) AS skipped
      INTO d FROM gone;
    b.size := b.size + d.size;
    b.succeeded := b.succeeded + d.succeeded;
    b.failed := b.failed + d.failed;
    b.cancelled := b.cancelled + d.cancelled;
    b.skipped := b.skipped + d.skipped;
    unsettled := b.size - b.succeeded - b.failed - b.cancelled - b.skipped;
    -- A failed member holds up the rows that wait for its success. Once all remaining members wait so, nothing moves until
    -- an operator replays or dismisses it: the batch counts as failed. A row that is settled after the statements above
    -- is unsettled in their counts and does not wait in this one, so the sums differ, and no row that can move is missed.
    stuck := unsettled > 0 AND b.failed > 0 AND NOT more AND unsettled
             = (SELECT count(*) FROM {schema}.commands c WHERE c.batch_id = batch AND c.status = 'waiting' AND c.needs > 0)
             + (SELECT count(*) FROM {schema}.batches n WHERE n.parent_id = batch AND n.status = 'waiting' AND n.needs > 0);
    status := CASE
        WHEN b.needs > 0 THEN 'waiting'
        WHEN more AND was = 'failed' THEN was
        WHEN unsettled > 0 AND NOT stuck OR more OR b.closed_at IS NULL THEN
            CASE WHEN unsettled < b.size THEN 'running' ELSE 'pending' END
        WHEN b.failed > 0 THEN 'failed'
        WHEN b.cancelled > 0 OR b.ending IS NOT NULL OR b.skipped > 0 AND b.succeeded = 0 THEN 'cancelled'
        ELSE 'succeeded'
    END;
    UPDATE {schema}.batches
       SET size = b.size, succeeded = b.succeeded, failed = b.failed, cancelled = b.cancelled,
           skipped = b.skipped, status = fold_batch.status,
           needs = b.needs, ending = b.ending, closed_at = b.closed_at,
           starting = b.starting AND (b.closed_at IS NULL OR fold_batch.more),
           finished_at = CASE WHEN fold_batch.status IN ('succeeded', 'failed', 'cancelled')
                              THEN CASE WHEN status = fold_batch.status THEN finished_at
                                        ELSE clock_timestamp() END END,
           failed_at = CASE WHEN fold_batch.status = 'failed' THEN coalesce(failed_at, clock_timestamp())
                            ELSE failed_at END,
           updated_at = clock_timestamp()
     WHERE id = batch;
    IF more THEN
        INSERT INTO {schema}.batch_progress (batch_id) VALUES (batch);  -- if no later fold comes, the sweep folds it
    END IF;
    IF status <> was THEN
        -- It was cancelled without a request, so it was not needed.
        outcome := CASE WHEN status = 'cancelled' AND b.cancelled = 0 AND b.ending IS DISTINCT FROM 'cancelled'
                        THEN 'skipped' ELSE status END;
        IF b.parent_id IS NOT NULL AND (was = 'failed' OR outcome IN ('succeeded', 'failed', 'cancelled', 'skipped')) THEN
            parent := b.parent_id;
            INSERT INTO {schema}.batch_progress (batch_id, succeeded, failed, cancelled, skipped)
            VALUES (parent, (outcome = 'succeeded')::integer,
                    (outcome = 'failed')::integer - (was = 'failed')::integer,
                    (outcome = 'cancelled')::integer, (outcome = 'skipped')::integer);
        END IF;
        IF b.awaited AND outcome IN ('succeeded', 'failed', 'cancelled', 'skipped') THEN
            PERFORM {schema}.release(ARRAY[b.batch_id], ARRAY[outcome]);
        END IF;
    END IF;
    IF b.ending IS NOT NULL AND NOT more THEN
        -- Its own dependencies no longer count. Deleted last, and rows that others have locked are left, so nothing waits.
        WITH free AS MATERIALIZED (
            SELECT needs, condition FROM {schema}.dependencies WHERE waiting = b.batch_id FOR UPDATE SKIP LOCKED
        )
        DELETE FROM {schema}.dependencies d USING free
         WHERE d.needs = free.needs AND d.condition = free.condition AND d.waiting::text = b.batch_id::text;
    END IF;
END
$$;
