-- A large payload stays in its row while today's table of bodies is there but detached: its insert failed.
-- oldest code: 4

-- put_body as 0003 has it, but: room for today is told by attachment, where it was told by a table's name.
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
