-- End commands without running them: dead letters as dismissed, commands that wait as cancelled, those that have expired as
-- expired, which is cancelled without a request. Returns the ids of those that ended. A function, so that an operator needs no
-- privilege to write history.
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
                                         ELSE ARRAY['pending', 'waiting'] END)
           AND ending IN ('dismissed', 'cancelled', 'expired')
           AND (ending <> 'expired' OR {has expired commands})
        RETURNING *
    )
    INSERT INTO {schema}.commands_history
           ({command but status, cancel_requested, updated_at},
            status, cancel_requested, updated_at, finished_at)
    SELECT {command but status, cancel_requested, updated_at},
           CASE ending WHEN 'dismissed' THEN ending ELSE 'cancelled' END, cancel_requested OR ending = 'cancelled',
           clock_timestamp(), clock_timestamp()
      FROM gone
    RETURNING id
$$;
