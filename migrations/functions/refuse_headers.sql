-- Raise what is wrong with headers, except for events that are moved: they were accepted before.
-- called by: trigger events_above_headers
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.refuse_headers() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF {schema}.is_taking() THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION '%', CASE WHEN jsonb_typeof(NEW.headers) <> 'object'
            THEN format('headers must be a JSON object, not %s: name each value', jsonb_typeof(NEW.headers))
            ELSE format('headers have %s bytes as JSON; at most 16384 fit: put what is larger into the payload',
                        octet_length(NEW.headers::text)) END
        USING ERRCODE = 'check_violation', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME, COLUMN = 'headers';
END
$$;
