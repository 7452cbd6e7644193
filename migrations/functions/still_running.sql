-- Which of a queue's commands run: the claimed ones that have not ended, looked up only if more than `enough` were claimed.
--
-- Every 10 seconds this counts all running commands, since workers that do not know the limit may have claimed some. A row
-- with a worker is running (by a constraint): a condition on the status would let the planner use the index of running rows
-- and read its dead entries.
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
