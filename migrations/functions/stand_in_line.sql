-- Let a keyed command wait in the line of its key, where other commands would be pending.
--
-- A new command is due when it is inserted, not when its transaction began: other commands came since.
-- called by: trigger commands_wait
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.stand_in_line() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.status := 'waiting';
    IF TG_OP = 'INSERT' AND NEW.run_at < clock_timestamp() THEN
        NEW.run_at := clock_timestamp();  -- now() is when its transaction began: others came since
    END IF;
    RETURN NEW;
END
$$;
