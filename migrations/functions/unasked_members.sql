-- A batch's running members whose worker is alive and whose cancellation has not been requested yet.
-- called by: end_members
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.unasked_members(batch bigint) RETURNS bigint[]
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
    SELECT ARRAY(SELECT id FROM {schema}.commands
                  WHERE status = 'running' AND NOT cancel_requested AND batch_id = batch
                    AND worker_id = ANY (ARRAY(SELECT w.id FROM {schema}.workers w WHERE w.state IN ('running', 'draining'))))
$$;
