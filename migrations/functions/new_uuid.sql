-- A time-ordered uuid (RFC 9562, version 7). PostgreSQL 18 has a built-in function. In both, the twelve bits after the
-- milliseconds are the fraction of the millisecond, so that the ids of one statement are in its order.
--
-- Inlined, hence without a search_path, as some other functions are: each name is qualified, or fits its arguments' types
-- exactly: an object that somebody makes in a schema of the caller's path cannot fit better.
-- called by: emit_event, insert_members, open_batch, replay_commands, send_command, send_command_arrays, suspect,
--   write_events, write_webhooks, the migrations, the daemon
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
                    pg_catalog.int8send((now.micros / 1000) << 16 | 28672::bigint
                                        | now.micros % 1000::bigint * 4096 / 1000
                                          + (pg_catalog.random() * 3::double precision)::bigint)
                    || substring(pg_catalog.uuid_send(pg_catalog.gen_random_uuid()) FROM 9), 'hex')::uuid
                  FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000::numeric)::bigint AS micros
                        OFFSET 0) AS now
            $fn$;
    END IF;
END
$do$;
