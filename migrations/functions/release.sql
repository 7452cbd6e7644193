-- Release rows that waited only for the prerequisites «ended»; end rows that can never be released any more, and the rows
-- that wait for those, and so on; in a loop, since a graph may be deep.
--
-- Runs in the transaction that settles the prerequisites. Locks all commands that it changes first, in the order that all
-- code keeps (hold_in_order). A batch's row is not locked: its progress is written to batch_progress, and its fold adds it
-- up, so that a settlement never waits for a fold, which locks commands. A released command is due from now on: no worker's
-- cursor has passed it.
--
-- An edge is changed only by a transaction that has locked its prerequisite and, if it is a command, its waiting row; a
-- batch's fold waits for no edge.
-- called by: commands_failed, commands_settled, fold_batch
-- roles: worker
-- locks: what hold_in_order locks; their edges
CREATE OR REPLACE FUNCTION {schema}.release(ended uuid[], outcomes text[])
    RETURNS void LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    freed   uuid[];
    takes   integer[];
    lost    uuid[];
    lost_as text[];
    found_  integer;
    wake    boolean := false;
BEGIN
    PERFORM {schema}.hold_in_order('{}', ended, outcomes);
    WHILE cardinality(ended) > 0 LOOP
        WITH gone AS (
            DELETE FROM {schema}.dependencies d USING unnest(ended, outcomes) AS e(id, outcome)
             WHERE d.needs BETWEEN e.id AND e.id AND {schema}.edge_verdict(d.condition, e.outcome) IS NOT NULL
            RETURNING d.waiting, {schema}.edge_verdict(d.condition, e.outcome) AS verdict
        ), judged AS (
            SELECT waiting, count(*)::integer AS takes, min(nullif(verdict, 'met')) AS never
              FROM gone GROUP BY waiting
        )
        SELECT array_agg(waiting) FILTER (WHERE never IS NULL), array_agg(judged.takes) FILTER (WHERE never IS NULL),
               array_agg(waiting) FILTER (WHERE never IS NOT NULL), array_agg(never) FILTER (WHERE never IS NOT NULL)
          INTO freed, takes, lost, lost_as FROM judged;
        ended := NULL;
        outcomes := NULL;
        IF freed IS NOT NULL THEN
            UPDATE {schema}.commands c
               SET needs = c.needs - f.takes,
                   status = CASE WHEN c.needs = f.takes AND c.status = 'waiting' THEN 'pending' ELSE c.status END,
                   run_at = CASE WHEN c.needs = f.takes THEN greatest(c.run_at, clock_timestamp()) ELSE c.run_at END,
                   updated_at = clock_timestamp()
              FROM unnest(freed, takes) AS f(id, takes) WHERE c.command_id BETWEEN f.id AND f.id;
            GET DIAGNOSTICS found_ = ROW_COUNT;
            wake := wake OR found_ > 0;
            IF found_ < cardinality(freed) THEN  -- some are batches: their folds see to it
                INSERT INTO {schema}.batch_progress (batch_id, met)
                SELECT b.id, f.takes FROM unnest(freed, takes) AS f(id, takes)
                 CROSS JOIN LATERAL (SELECT w.id FROM {schema}.batches w WHERE w.batch_id = f.id OFFSET 0) b;
            END IF;
        END IF;
        IF lost IS NOT NULL THEN
            INSERT INTO {schema}.batch_progress (batch_id, ending)
            SELECT b.id, l.outcome FROM unnest(lost, lost_as) AS l(id, outcome)
             CROSS JOIN LATERAL (SELECT w.id FROM {schema}.batches w WHERE w.batch_id = l.id OFFSET 0) b;
            SELECT array_agg(e.command_id), array_agg(e.command_id) FILTER (WHERE e.awaited),
                   array_agg(e.outcome) FILTER (WHERE e.awaited)
              INTO lost, ended, outcomes FROM {schema}.end_waiting(lost, lost_as) AS e;
            DELETE FROM {schema}.dependencies WHERE waiting = ANY (lost);
        END IF;
    END LOOP;
    IF wake THEN
        PERFORM {schema}.wake_commands();
    END IF;
END
$$;
