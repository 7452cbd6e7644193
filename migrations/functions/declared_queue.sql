-- The queue that the handler of a command type declares.
-- called by: fill_queue
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.declared_queue(command_type text) RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT queue FROM {schema}.declared_types
                      WHERE kind = 'command' AND type = command_type), 'default')
$$;
