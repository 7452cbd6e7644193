-- Move a large payload to bodies.
--
-- Without a partition for today that is attached, the payload stays in the row: slower, never lost.
-- called by: trigger commands_body, trigger events_body
-- roles: none
-- locks: the new row
CREATE OR REPLACE FUNCTION {schema}.put_body() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_inherits
                    WHERE inhrelid = to_regclass('{schema}.bodies' || to_char(now(), '_YYYYMMDD'))
                      AND inhparent = to_regclass('{schema}.bodies') AND NOT inhdetachpending) THEN
        RETURN NEW;
    END IF;
    INSERT INTO {schema}.bodies (payload) VALUES (NEW.payload)
        RETURNING id, created_at INTO NEW.body_id, NEW.body_at;
    NEW.body_bytes := pg_column_size(NEW.payload);
    NEW.payload := NULL;
    RETURN NEW;
END
$$;
