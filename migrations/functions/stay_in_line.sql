-- Let an event that is retried wait in its line, where other events would be pending.
-- called by: trigger events_wait
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.stay_in_line() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.status := 'waiting';
    RETURN NEW;
END
$$;
