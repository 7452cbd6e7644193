-- Raise that a dedup key, its source or its topic is too long. The key of a contradiction is up to 35 bytes longer than the
-- dedup key itself.
--
-- No SET, which would cost time for each row of accept_event: every function that may insert here has set its search_path.
-- called by: trigger dedup_above_text
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.refuse_long_key() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    IF octet_length(NEW.key) > 300 THEN
        PERFORM {schema}.refuse_bytes('dedup_key', octet_length(NEW.key));
    ELSIF octet_length(NEW.source) > 255 THEN
        PERFORM {schema}.refuse_bytes('source', octet_length(NEW.source));
    ELSIF octet_length(NEW.topic) > 255 THEN
        PERFORM {schema}.refuse_bytes('topic', octet_length(NEW.topic));
    END IF;
    RETURN NEW;
END
$$;
