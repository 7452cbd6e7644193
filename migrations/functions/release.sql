-- The prerequisites «ended» ended so: release what waited for nothing else, and end what can never be released any
-- more, and what waits for that, and so on; in a loop, since a graph may be deep.
--
-- Runs in the transaction that settles the prerequisites. Dependents are locked in one order, and before their edges
-- are deleted, as a cancellation does, so that neither two settlements that release the same ones nor these two
-- deadlock. A released command is due from now on, so that it stands before no worker's cursor.
-- called by: commands_failed, commands_settled, fold_batch
-- roles: worker
-- locks: the dependents, commands before batches, each in one order
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
    WHILE cardinality(ended) > 0 LOOP
        PERFORM FROM {schema}.commands c
          WHERE c.command_id = ANY (ARRAY(SELECT d.waiting FROM {schema}.dependencies d WHERE d.needs = ANY (ended)))
          ORDER BY c.command_id FOR NO KEY UPDATE;
        PERFORM FROM {schema}.batches b
          WHERE b.id = ANY (ARRAY(
                    SELECT w.id FROM {schema}.batches w
                     WHERE w.batch_id = ANY (ARRAY(SELECT d.waiting FROM {schema}.dependencies d WHERE d.needs = ANY (ended)))))
          ORDER BY b.id FOR NO KEY UPDATE;
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
            IF found_ < cardinality(freed) THEN  -- some are batches: their members follow, page by page
                WITH begun AS (
                    UPDATE {schema}.batches b
                       SET needs = b.needs - f.takes,
                           starting = b.needs = f.takes,
                           status = CASE WHEN b.needs = f.takes THEN 'pending' ELSE b.status END,
                           updated_at = clock_timestamp()
                      FROM unnest(freed, takes) AS f(id, takes) WHERE b.batch_id BETWEEN f.id AND f.id
                    RETURNING b.id, b.starting
                )
                INSERT INTO {schema}.batch_progress (batch_id) SELECT id FROM begun WHERE starting;
            END IF;
        END IF;
        IF lost IS NOT NULL THEN
            DELETE FROM {schema}.dependencies WHERE waiting = ANY (lost);
            WITH never AS (
                UPDATE {schema}.batches b
                   SET ending = l.outcome, needs = 0, closed_at = coalesce(b.closed_at, clock_timestamp()),
                       updated_at = clock_timestamp()
                  FROM unnest(lost, lost_as) AS l(id, outcome)
                 WHERE b.batch_id BETWEEN l.id AND l.id AND b.ending IS NULL
                RETURNING b.id
            )
            INSERT INTO {schema}.batch_progress (batch_id) SELECT id FROM never;
            SELECT array_agg(e.command_id), array_agg(e.outcome) INTO ended, outcomes
              FROM {schema}.end_waiting(lost, lost_as) AS e WHERE e.awaited;
        END IF;
    END LOOP;
    IF wake THEN
        PERFORM {schema}.wake_commands();
    END IF;
END
$$;
