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
           ({command but status, attempts, result, updated_at},
            status, attempts, result, updated_at, finished_at, duration)
    SELECT {command but status, attempts, result, updated_at},
           'succeeded', least(attempts + 1, 32767), outcome, clock_timestamp(), clock_timestamp(),
           make_interval(secs => seconds)
      FROM gone;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'lease lost: command % is not held by this claim any more', command
            USING ERRCODE = 'IB001';
    END IF;
END
$$;
