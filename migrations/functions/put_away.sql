-- End commands without running them: dead letters as dismissed; commands that wait as cancelled; as expired, which is
-- cancelled for that reason, commands that wait, have never begun, and whose expires_at has passed. Returns the ids of those
-- that ended. A function, so that an operator needs no privilege to write history.
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
           AND (ending <> 'expired' OR expires_at <= clock_timestamp() AND attempts = 0 AND crashes = 0)
        RETURNING *
    )
    INSERT INTO {schema}.commands_history
           ({command but status, cancel_requested, errors, updated_at},
            status, cancel_requested, errors, updated_at, finished_at)
    SELECT {command but status, cancel_requested, errors, updated_at},
           CASE ending WHEN 'dismissed' THEN ending ELSE 'cancelled' END, cancel_requested OR ending <> 'dismissed',
           CASE ending WHEN 'expired' THEN {schema}.add_expiry(errors, expires_at) ELSE errors END,
           clock_timestamp(), clock_timestamp()
      FROM gone
    RETURNING id
$$;
