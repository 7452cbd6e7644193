-- The role of the daemon: all that a worker needs, and no right to change the schema.
-- oldest code: 1
--
-- Migrations run as the schema's owner; the daemon may run as a login role that is granted this one.
-- Partitions need no grants of their own: they are reached through their parents, and made by a
-- function that runs as the owner. The role belongs to the whole server, so creating it is optional.

DO $do$
BEGIN
    BEGIN
        CREATE ROLE {schema}_worker NOLOGIN;
    EXCEPTION
        WHEN duplicate_object OR unique_violation THEN NULL;
        WHEN insufficient_privilege THEN
            RAISE NOTICE 'role {schema}_worker was not created: the right to create roles is missing';
            RETURN;
    END;
    GRANT USAGE ON SCHEMA {schema} TO {schema}_worker;
    GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.events, {schema}.commands, {schema}.workers,
          {schema}.declared_types, {schema}.stats TO {schema}_worker;
    GRANT SELECT, INSERT ON {schema}.events_history, {schema}.commands_history, {schema}.bodies,
          {schema}.audit TO {schema}_worker;
    GRANT SELECT ON {schema}.schema_migrations TO {schema}_worker;
    GRANT UPDATE, SELECT ON SEQUENCE {schema}.events_flag, {schema}.commands_flag TO {schema}_worker;
    GRANT EXECUTE ON FUNCTION {schema}.new_uuid(), {schema}.make_partitions(integer),
          {schema}.settle_command(bigint, bigint, uuid, double precision, jsonb),
          {schema}.emit_event, {schema}.emit_events, {schema}.send_command, {schema}.send_commands
       TO {schema}_worker;
END
$do$;
