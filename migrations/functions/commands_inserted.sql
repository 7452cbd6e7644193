-- Wake the command processors, unless one is claiming anyway (0001: wake-ups). The IFs are nested because AND does not
-- guarantee the order of evaluation. A session or role that must not notify (two-phase commit cannot) sets inboxd.notify =
-- 'off'.
-- called by: trigger commands_inserted
-- roles: none
-- locks: shared, the wake-up of commands, while a worker is claiming
CREATE OR REPLACE FUNCTION {schema}.commands_inserted() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    flag bigint := pg_sequence_last_value('{schema}.commands_flag'::regclass);
BEGIN
    IF flag = 0 THEN
        IF pg_try_advisory_xact_lock_shared(hashtext('{schema}'), 2) THEN
            IF pg_sequence_last_value('{schema}.commands_flag'::regclass) = 0 THEN
                RETURN NULL;
            END IF;
        END IF;
    ELSIF flag = 2 THEN
        RETURN NULL;
    END IF;
    IF current_setting('inboxd.notify', true) = 'off' THEN
        RETURN NULL;
    END IF;
    PERFORM pg_notify('{schema}_commands', '');
    RETURN NULL;
END
$$;
