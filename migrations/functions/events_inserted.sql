-- Wake the event processors, unless one is claiming anyway: commands_inserted, for events.
-- called by: trigger events_inserted
-- roles: none
-- locks: shared, the wake-up of events, while a worker is claiming
CREATE OR REPLACE FUNCTION {schema}.events_inserted() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    flag bigint := pg_sequence_last_value('{schema}.events_flag'::regclass);
BEGIN
    IF flag = 0 THEN
        IF pg_try_advisory_xact_lock_shared(hashtext('{schema}'), 1) THEN
            IF pg_sequence_last_value('{schema}.events_flag'::regclass) = 0 THEN
                RETURN NULL;
            END IF;
        END IF;
    ELSIF flag = 2 THEN
        RETURN NULL;
    END IF;
    IF current_setting('inboxd.notify', true) = 'off' THEN
        RETURN NULL;
    END IF;
    PERFORM pg_notify('{schema}_events', '');
    RETURN NULL;
END
$$;
