-- What says when something happened is the time at which it did, not that at which its transaction began.
-- oldest code: 4
--
-- A handler may hold its transaction open for minutes, and settles, sends and makes batches at its end. now() is
-- left where it is right: run_at, which is compared with it, and occurred_at, which a producer's own rows of the
-- same transaction share; dedup's seen_at, by which a transaction knows its own keys; and what inboxd writes in short
-- transactions of its own. The partition of a moment after midnight is there: partitions are made days ahead, and
-- nothing is claimed on a day that has none.

-- As in 0005, with the time of the settlement.
CREATE OR REPLACE FUNCTION {schema}.settle_command(
    command bigint, held_fence bigint, worker uuid, seconds double precision, outcome jsonb DEFAULT NULL
) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
    WITH gone AS (
        DELETE FROM {schema}.commands
         WHERE id = command AND fence = held_fence AND worker_id = worker
        RETURNING *
    )
    INSERT INTO {schema}.commands_history
           (id, command_id, queue, type, schema_version, payload, priority, ordering_key, bucket,
            unique_key, tenant, entity_type, entity_id, status, attempts, max_attempts, crashes, fence,
            run_at, deadline, worker_id, started_at, cancel_requested, origin_kind, origin_id, replay_of,
            batch_id, correlation_id, causation_id, traceparent, errors, fingerprint, result, progress,
            body_id, body_at, body_bytes, created_at, updated_at, finished_at, duration, awaited)
    SELECT id, command_id, queue, type, schema_version, payload, priority, ordering_key, bucket,
           unique_key, tenant, entity_type, entity_id, 'succeeded', attempts + 1, max_attempts, crashes,
           fence, run_at, deadline, worker_id, started_at, cancel_requested, origin_kind, origin_id,
           replay_of, batch_id, correlation_id, causation_id, traceparent, errors, fingerprint, outcome,
           progress, body_id, body_at, body_bytes, created_at, clock_timestamp(), clock_timestamp(),
           make_interval(secs => seconds), awaited
      FROM gone;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'lease lost: command % is not held by this claim any more', command
            USING ERRCODE = 'IB001';
    END IF;
END
$$;

-- Of the statement, not of the row: a row whose updated_at is its created_at has not been changed since (open_lists.sql).
ALTER TABLE {schema}.events
    ALTER COLUMN created_at SET DEFAULT statement_timestamp(), ALTER COLUMN updated_at SET DEFAULT statement_timestamp();
ALTER TABLE {schema}.commands
    ALTER COLUMN created_at SET DEFAULT statement_timestamp(), ALTER COLUMN updated_at SET DEFAULT statement_timestamp();
ALTER TABLE {schema}.batches
    ALTER COLUMN created_at SET DEFAULT statement_timestamp(), ALTER COLUMN updated_at SET DEFAULT statement_timestamp();
