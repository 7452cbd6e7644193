-- Raise that a text is too long, except for events that are moved: they were accepted before.
-- called by: refuse_long, refuse_long_key, write_received
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.refuse_bytes(name text, size integer) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT {schema}.is_taking() THEN
        RAISE EXCEPTION '% has % bytes; at most 255 fit: shorten it, or put it into the payload', name, size
            USING ERRCODE = 'check_violation', COLUMN = name;
    END IF;
END
$$;
