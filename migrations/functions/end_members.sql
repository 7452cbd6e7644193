-- End one page of a batch's members that have not begun, and request the cancellation of those that run.
--
-- Returns how many were ended, or the page's size where some are left.
-- called by: fold_batch
-- roles: none
-- locks: the members, in the order of ids
CREATE OR REPLACE FUNCTION {schema}.end_members(batch bigint, ends text, page integer)
    RETURNS bigint LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    moved bigint;
BEGIN
    WITH never AS (
        UPDATE {schema}.batches
           SET ending = ends, needs = 0, closed_at = coalesce(closed_at, clock_timestamp())
         WHERE parent_id = batch AND status IN ('pending', 'waiting', 'running') AND ending IS NULL
        RETURNING id
    )
    INSERT INTO {schema}.batch_progress (batch_id) SELECT id FROM never;
    PERFORM {schema}.ask_members(batch);
    WITH gone AS (
        DELETE FROM {schema}.commands c
         USING (SELECT id FROM {schema}.commands
                 WHERE batch_id BETWEEN batch AND batch AND status IN ('pending', 'waiting')
                 ORDER BY batch_id, id LIMIT page FOR UPDATE) AS picked
         WHERE c.id BETWEEN picked.id AND picked.id
        RETURNING c.*
    )
    INSERT INTO {schema}.commands_history
           (id, command_id, queue, type, schema_version, payload, priority, ordering_key, bucket,
            unique_key, tenant, entity_type, entity_id, status, attempts, max_attempts, crashes, fence,
            run_at, deadline, worker_id, started_at, cancel_requested, origin_kind, origin_id, replay_of,
            batch_id, correlation_id, causation_id, traceparent, errors, fingerprint, result, progress,
            body_id, body_at, body_bytes, created_at, updated_at, finished_at, awaited)
    SELECT id, command_id, queue, type, schema_version, payload, priority, ordering_key, bucket,
           unique_key, tenant, entity_type, entity_id, 'cancelled', attempts, max_attempts, crashes,
           fence, run_at, deadline, worker_id, started_at, ends = 'cancelled', origin_kind, origin_id,
           replay_of, batch_id, correlation_id, causation_id, traceparent, errors, fingerprint, result,
           progress, body_id, body_at, body_bytes, created_at, clock_timestamp(), clock_timestamp(), awaited
      FROM gone;
    GET DIAGNOSTICS moved = ROW_COUNT;
    PERFORM {schema}.ask_members(batch);
    IF moved < page AND EXISTS (SELECT FROM {schema}.commands
                                 WHERE batch_id = batch AND status IN ('pending', 'waiting')) THEN
        RETURN page;
    END IF;
    RETURN moved;
END
$$;
