-- Wake-ups: a NOTIFY when somebody must be woken, silence while a worker is claiming anyway.
-- oldest code: 1
--
-- NOTIFY takes an instance-wide lock at commit, so a busy queue must not pay for it. A sequence per
-- table holds a flag; sequences are not transactional, so everybody sees its newest value at once:
--   0  a worker that serves every lane of this table is claiming now, has free capacity, and will
--      set 1 and look again before it stops, for whatever reason
--   1  notify
--   2  nobody listens (mode "off")
-- At 0 a producer takes a shared advisory transaction lock and reads again: it is silent only if it
-- has the lock and the flag is still 0. A worker that wants to sleep sets 1 and then needs one
-- success of the exclusive lock: every silent producer has ended by then, and its rows are visible
-- to the sweep that follows. The IFs are nested because AND promises no order of evaluation.
-- A session or role that must not notify (two-phase commit cannot) says SET inboxd.notify = 'off'.

CREATE SEQUENCE {schema}.events_flag MINVALUE 0 START 1;
CREATE SEQUENCE {schema}.commands_flag MINVALUE 0 START 1;
SELECT setval('{schema}.events_flag', 1), setval('{schema}.commands_flag', 1);

DO $do$
DECLARE
    place text;
    lock_number integer := 0;
BEGIN
    FOREACH place IN ARRAY ARRAY['events', 'commands'] LOOP
        lock_number := lock_number + 1;
        EXECUTE replace(replace($fn$
            CREATE FUNCTION {schema}.%place%_inserted() RETURNS trigger
                LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
            DECLARE
                flag bigint := pg_sequence_last_value('{schema}.%place%_flag'::regclass);
            BEGIN
                IF flag = 0 THEN
                    IF pg_try_advisory_xact_lock_shared(hashtext('{schema}'), %lock%) THEN
                        IF pg_sequence_last_value('{schema}.%place%_flag'::regclass) = 0 THEN
                            RETURN NULL;
                        END IF;
                    END IF;
                ELSIF flag = 2 THEN
                    RETURN NULL;
                END IF;
                IF current_setting('inboxd.notify', true) = 'off' THEN
                    RETURN NULL;
                END IF;
                PERFORM pg_notify('{schema}_%place%', '');
                RETURN NULL;
            END
            $body$
        $fn$, '%place%', place), '%lock%', lock_number::text);
        EXECUTE format('CREATE TRIGGER %1$s_inserted AFTER INSERT ON {schema}.%1$I '
                       'FOR EACH STATEMENT EXECUTE FUNCTION {schema}.%1$s_inserted()', place);
    END LOOP;
END
$do$;
