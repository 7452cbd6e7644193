-- Request the cancellation of a batch's running members, where their worker lives.
-- called by: end_members
-- roles: none
-- locks: their rows, in the order of ids
CREATE OR REPLACE FUNCTION {schema}.ask_members(batch bigint)
    RETURNS void LANGUAGE sql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
    UPDATE {schema}.commands c SET cancel_requested = true, updated_at = clock_timestamp()
      FROM (SELECT id FROM {schema}.commands
             WHERE status = 'running' AND NOT cancel_requested AND batch_id = batch
               AND worker_id = ANY (ARRAY(SELECT w.id FROM {schema}.workers w WHERE w.state IN ('running', 'draining')))
             ORDER BY id FOR NO KEY UPDATE) AS picked
     WHERE c.id BETWEEN picked.id AND picked.id
$$;
