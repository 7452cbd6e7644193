-- Wake the command processors, as an INSERT does (commands_inserted).
-- called by: release, start_members
-- roles: worker
-- locks: shared, the wake-up of commands, while a worker is claiming
CREATE OR REPLACE FUNCTION {schema}.wake_commands() RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    flag bigint := pg_sequence_last_value('{schema}.commands_flag'::regclass);
BEGIN
    IF flag = 0 THEN
        IF pg_try_advisory_xact_lock_shared(hashtext('{schema}'), 2) THEN
            IF pg_sequence_last_value('{schema}.commands_flag'::regclass) = 0 THEN
                RETURN;
            END IF;
        END IF;
    ELSIF flag = 2 THEN
        RETURN;
    END IF;
    IF current_setting('inboxd.notify', true) = 'off' THEN
        RETURN;
    END IF;
    PERFORM pg_notify('{schema}_commands', '');
END
$$;
