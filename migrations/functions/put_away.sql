-- End commands without running them: dead letters as dismissed, or commands that have not started as cancelled. Returns the
-- ids of those that ended. A function, so that an operator needs no privilege to write history.
-- called by: resolve_unique_keys, the daemon
-- roles: operator, worker
-- locks: the rows (held already)
CREATE OR REPLACE FUNCTION {schema}.put_away(ids bigint[], ending text) RETURNS SETOF bigint
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
    WITH gone AS (
        DELETE FROM {schema}.commands
         WHERE id = ANY (ids)
           AND status = ANY (CASE ending WHEN 'dismissed' THEN ARRAY['failed']
                                         WHEN 'cancelled' THEN ARRAY['pending', 'waiting'] END)
        RETURNING *
    )
    INSERT INTO {schema}.commands_history
           ({command but status, cancel_requested, updated_at},
            status, cancel_requested, updated_at, finished_at)
    SELECT {command but status, cancel_requested, updated_at},
           ending, cancel_requested OR ending = 'cancelled', clock_timestamp(), clock_timestamp()
      FROM gone
    RETURNING id
$$;
