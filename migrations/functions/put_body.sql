-- Move a payload to bodies that is large as it is stored or as text: jsonb stores 1e308 in a dozen bytes and writes all of
-- its digits. body_bytes is the size of the text, since a worker holds the text in memory.
--
-- If the text is much longer than the stored value, refuses numbers that no float holds: no handler can read them, and ten
-- bytes may become 131,000 digits. Events that are moved between topics were accepted before and are not refused. If no
-- partition for today is attached, the payload stays in the row: slower, but not lost.
-- called by: trigger commands_body, trigger events_body
-- roles: none
-- locks: the new row
CREATE OR REPLACE FUNCTION {schema}.put_body() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    written    CONSTANT text := NEW.payload::text;
    text_bytes CONSTANT integer := octet_length(written);
BEGIN
    -- Find numbers near zero by their text, since a zero may have as many digits.
    IF text_bytes > 2 * pg_column_size(NEW.payload)
       AND (strpos(written, '0.' || repeat('0', 400)) > 0
            OR jsonb_path_exists(NEW.payload, 'strict $.** ? (@ > 1.8e308 || @ < -1.8e308)'))
       AND NOT {schema}.is_taking() THEN
        RAISE EXCEPTION 'the payload has a number that no float holds: write it as a text'
            USING ERRCODE = 'check_violation', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME, COLUMN = 'payload';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_inherits
                    WHERE inhrelid = to_regclass('{schema}.bodies' || to_char(now(), '_YYYYMMDD'))
                      AND inhparent = to_regclass('{schema}.bodies') AND NOT inhdetachpending) THEN
        RETURN NEW;
    END IF;
    INSERT INTO {schema}.bodies (payload) VALUES (NEW.payload)
        RETURNING id, created_at INTO NEW.body_id, NEW.body_at;
    NEW.body_bytes := text_bytes;
    NEW.payload := NULL;
    RETURN NEW;
END
$$;
