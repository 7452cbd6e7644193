-- Raise that a text is too long, with the column's name. Arguments: the columns to check.
--
-- Reads the columns one by one: JSON cannot hold every value of a row.
-- called by: trigger batches_above_text, trigger commands_above_text, trigger events_above_text
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.refuse_long() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name text;
    size integer;
BEGIN
    FOREACH name IN ARRAY TG_ARGV LOOP
        EXECUTE format('SELECT octet_length(($1).%I)', name) INTO size USING NEW;
        IF size > 255 THEN
            PERFORM {schema}.refuse_bytes(name, size);
        END IF;
    END LOOP;
    RETURN NEW;
END
$$;
