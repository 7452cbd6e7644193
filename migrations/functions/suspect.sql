-- Put a command that outlived its worker into a group of suspects, and take it out when it is cleared.
--
-- A trigger, since any code may take commands back or clear them, also that of older releases: a row is in a group while
-- crashes > 0.
-- called by: trigger commands_suspect, trigger commands_suspect_new
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.suspect() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        NEW.suspect_group := {schema}.new_uuid();
    ELSIF NEW.crashes = 0 THEN
        NEW.suspect_group := NULL;
        NEW.lone_crashes := NULL;
    ELSIF NEW.status = 'failed' THEN
        NEW.suspect_group := NULL;
    ELSIF NEW.suspect_group IS NOT DISTINCT FROM OLD.suspect_group THEN
        -- Written by an older release: use the group of its worker; a suspect in a group of one stays alone.
        NEW.suspect_group := CASE WHEN OLD.lone_crashes IS NULL
                                  THEN coalesce(OLD.worker_id, OLD.suspect_group, {schema}.new_uuid())
                                  ELSE {schema}.new_uuid() END;
    END IF;
    RETURN NEW;
END
$$;
