-- Move dead letters that must not run again into history as dismissed: a function, so that an operator needs
-- no privilege to write history.
-- called by: the daemon
-- roles: operator, worker
-- locks: the rows (held already)
CREATE OR REPLACE FUNCTION {schema}.dismiss_events(ids bigint[]) RETURNS SETOF bigint
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
    WITH gone AS (
        DELETE FROM {schema}.events WHERE id = ANY (ids) AND status LIKE 'failed' RETURNING *
    )
    INSERT INTO {schema}.events_history
           ({event but status, updated_at},
            status, updated_at, finished_at)
    SELECT {event but status, updated_at},
           'dismissed', clock_timestamp(), clock_timestamp()
      FROM gone
    RETURNING id
$$;
