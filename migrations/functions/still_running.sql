-- Which of a queue's commands run: those claimed and not ended yet, looked up only when there may be more of them than
-- `enough`.
--
-- From time to time all are counted, since workers that do not know the limit may have claimed some. A row with a
-- worker is running (a constraint says so): asking for the status would invite the planner to the index of running
-- rows, whose dead entries it would join.
-- called by: claim_limited
-- roles: worker
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.still_running(
    of_queue text, claimed bigint[], counted_at timestamptz, enough integer
) RETURNS bigint[] LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF counted_at IS NULL OR counted_at NOT BETWEEN clock_timestamp() - interval '10 seconds' AND clock_timestamp() THEN
        RETURN ARRAY(SELECT c.id FROM {schema}.commands c WHERE c.status = 'running' AND c.queue = of_queue);
    ELSIF cardinality(claimed) <= enough THEN
        RETURN claimed;
    END IF;
    RETURN ARRAY(SELECT c.id FROM unnest(claimed) AS known(id)
                   JOIN {schema}.commands c ON c.id BETWEEN known.id AND known.id
                                           AND c.worker_id IS NOT NULL AND c.queue = of_queue);
END
$$;
