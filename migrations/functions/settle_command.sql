-- Settle a command inside its handler's own transaction.
--
-- Raises if the claim does not hold the lease any more, so that «settle; COMMIT» in one round trip cannot commit a stale
-- worker's effects (promise 3). It runs in handlers' sessions, whose planner settings are not changed: a plan kept from
-- when the table was small would read all of it at each settlement, so enable_seqscan is off.
-- called by: the daemon
-- roles: worker
-- locks: the row
CREATE OR REPLACE FUNCTION {schema}.settle_command(
    command bigint, held_fence bigint, worker uuid, seconds double precision, outcome jsonb DEFAULT NULL
) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
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
            body_id, body_at, body_bytes, created_at, updated_at, finished_at, duration, awaited, sender)
    SELECT id, command_id, queue, type, schema_version, payload, priority, ordering_key, bucket,
           unique_key, tenant, entity_type, entity_id, 'succeeded', least(attempts + 1, 32767), max_attempts, crashes,
           fence, run_at, deadline, worker_id, started_at, cancel_requested, origin_kind, origin_id,
           replay_of, batch_id, correlation_id, causation_id, traceparent, errors, fingerprint, outcome,
           progress, body_id, body_at, body_bytes, created_at, clock_timestamp(), clock_timestamp(),
           make_interval(secs => seconds), awaited, sender
      FROM gone;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'lease lost: command % is not held by this claim any more', command
            USING ERRCODE = 'IB001';
    END IF;
END
$$;
