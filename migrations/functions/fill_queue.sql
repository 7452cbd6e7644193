-- Give a command whose producer names no queue the queue that its handler declares.
-- called by: trigger commands_queue
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.fill_queue() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.queue := {schema}.declared_queue(NEW.type);
    RETURN NEW;
END
$$;
