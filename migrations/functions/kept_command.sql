-- The existing command that kept another one from being written. The snapshot of this function is younger than the
-- insert's.
-- called by: send_command_arrays, write_webhooks
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.kept_command(command_key uuid, of_type text, key text)
    RETURNS TABLE (id bigint, command_id uuid)
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
    SELECT c.id, c.command_id FROM {schema}.commands c WHERE c.command_id = command_key
    UNION ALL
    SELECT c.id, c.command_id FROM {schema}.commands c
     WHERE c.type = of_type AND c.unique_key = key AND c.status <> 'failed' AND c.command_id <> command_key
     LIMIT 1
$$;
