-- End waiting commands that can never run.
--
-- In history awaited is false, so that the trigger there leaves their dependents to the caller's loop; without a request
-- they count as skipped, not as cancelled.
-- called by: release
-- roles: none
-- locks: the rows
CREATE OR REPLACE FUNCTION {schema}.end_waiting(ids uuid[], ends text[])
    RETURNS TABLE(command_id uuid, outcome text, awaited boolean) LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH gone AS (
        DELETE FROM {schema}.commands c USING unnest(ids, ends) AS l(id, outcome)
         WHERE c.command_id BETWEEN l.id AND l.id AND c.status LIKE 'waiting'
        RETURNING c.*, l.outcome AS ended_as
    ), moved AS (
        INSERT INTO {schema}.commands_history
               ({command but status, cancel_requested, updated_at, awaited},
                status, cancel_requested, updated_at, finished_at, awaited)
        SELECT {command but status, cancel_requested, updated_at, awaited},
               'cancelled', ended_as = 'cancelled', clock_timestamp(), clock_timestamp(), false
          FROM gone
    )
    SELECT gone.command_id, gone.ended_as, gone.awaited FROM gone;
END
$$;
