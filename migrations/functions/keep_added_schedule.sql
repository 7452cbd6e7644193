-- Keep undeclared_at empty in a schedule that an operator added; forget added_at when code declares a schedule of its name.
-- A trigger, since workers of a release before `added_at` do not know that column.
-- called by: trigger schedules_added
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.keep_added_schedule() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.source <> OLD.source THEN
        NEW.added_at := NULL;
    ELSE
        NEW.undeclared_at := NULL;
    END IF;
    RETURN NEW;
END
$$;
