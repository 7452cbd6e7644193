-- The rows in history of some commands, by their uuids or by their ids; rows of the newest days first (settled_rows).
-- called by: write_webhooks, the daemon
-- roles: worker
-- locks: nothing when it has ended
CREATE OR REPLACE FUNCTION {schema}.settled_commands(command_ids uuid[], row_ids bigint[] DEFAULT NULL)
    RETURNS TABLE (id bigint, command_id uuid, status text, cancel_requested boolean, result jsonb, error text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT s.id, s.command_id, s.status, s.cancel_requested, s.result, s.error
      FROM {schema}.settled_rows(command_ids, row_ids) AS s
$$;
