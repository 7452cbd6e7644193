-- Raise that a dedup key, its source or its topic is too long. A contradiction's key is 35 bytes longer at most.
--
-- No SET, which costs each row of accept_event: whoever may insert here has set its path.
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
