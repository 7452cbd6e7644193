-- A time-ordered uuid (RFC 9562, version 7). PostgreSQL 18 has them built in.
-- called by: emit_event, insert_members, open_batch, send_command, send_command_arrays, suspect, write_events, the
--   migrations, the daemon
-- roles: producer, worker
-- locks: nothing
DO $do$
BEGIN
    IF current_setting('server_version_num')::int >= 180000 THEN
        CREATE OR REPLACE FUNCTION {schema}.new_uuid() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE
            AS 'SELECT pg_catalog.uuidv7()';
    ELSE
        CREATE OR REPLACE FUNCTION {schema}.new_uuid() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE
            AS $fn$
                SELECT pg_catalog.encode(
                    pg_catalog.int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint << 16
                                        | 28672 | (random() * 4095)::bigint)
                    || substring(pg_catalog.uuid_send(gen_random_uuid()) FROM 9), 'hex')::uuid
            $fn$;
    END IF;
END
$do$;
