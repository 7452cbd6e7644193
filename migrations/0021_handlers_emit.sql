-- A handler may emit and send through `inboxd.client` with the rights of the worker's role alone.
-- oldest code: 4
--
-- The client calls the functions that take arrays; only producers were granted them.

DO $do$
BEGIN
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT EXECUTE ON FUNCTION {schema}.emit_event_arrays, {schema}.send_command_arrays TO {schema}_worker;
    END IF;
END
$do$;
