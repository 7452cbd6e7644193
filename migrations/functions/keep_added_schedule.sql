-- A schedule that an operator added is nobody's to mark as undeclared; who declares its name takes it over. Workers of
-- before `added_at` do both without knowing of it.
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
