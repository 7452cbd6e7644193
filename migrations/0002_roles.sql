-- The roles, and what they may do with the tables. Which functions a role may call, each function's file says.
-- oldest code: 3
--
-- Roles belong to the whole server, so creating them is optional: without the right to, and where there are none of
-- these names, an administrator grants the same to roles of their own (docs/producers.md, `inboxd check`).

DO $do$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['{schema}_producer', '{schema}_worker'] LOOP
        CONTINUE WHEN to_regrole(name) IS NOT NULL;
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN', name);
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL;
            WHEN insufficient_privilege THEN
                RAISE NOTICE 'role % was not created: the right to create roles is missing', name;
        END;
    END LOOP;

    -- A producer inserts; it reads no payload. SELECT on the ids is what RETURNING and ON CONFLICT need.
    IF to_regrole('{schema}_producer') IS NOT NULL THEN
        GRANT USAGE ON SCHEMA {schema} TO {schema}_producer;
        GRANT SELECT (id, event_id, topic),
              INSERT (event_id, topic, mode, type, schema_version, source, ordering_key, dedup_key, tenant, entity_type,
                      entity_id, payload, headers, correlation_id, causation_id, traceparent, occurred_at, run_at)
           ON {schema}.events TO {schema}_producer;
        GRANT SELECT (id, command_id),
              INSERT (command_id, queue, type, schema_version, payload, priority, ordering_key, unique_key, tenant,
                      entity_type, entity_id, max_attempts, run_at, deadline, correlation_id, causation_id, traceparent)
           ON {schema}.commands TO {schema}_producer;
    END IF;

    -- The daemon needs no right to change the schema. What became of a row is the worker's to write; what it says is
    -- not. Partitions need no grants: they are reached through their parents, and made by functions of the owner's.
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT USAGE ON SCHEMA {schema} TO {schema}_worker;
        GRANT SELECT, INSERT, DELETE,
              UPDATE (mode, status, attempts, crashes, run_at, errors, fingerprint, updated_at, position, head)
           ON {schema}.events TO {schema}_worker;
        GRANT SELECT, INSERT, DELETE,
              UPDATE (priority, status, attempts, crashes, fence, run_at, deadline, worker_id, started_at, line_at,
                      cancel_requested, errors, fingerprint, progress, updated_at, suspect_group, lone_crashes,
                      alone_fence)
           ON {schema}.commands TO {schema}_worker;
        GRANT SELECT, INSERT ON {schema}.events_history, {schema}.commands_history, {schema}.bodies TO {schema}_worker;
        GRANT SELECT, INSERT, UPDATE (count) ON {schema}.audit TO {schema}_worker;
        GRANT SELECT, INSERT, UPDATE, DELETE
           ON {schema}.workers, {schema}.declared_types, {schema}.stats, {schema}.limits, {schema}.batches,
              {schema}.batch_progress, {schema}.dependencies, {schema}.steps, {schema}.replays, {schema}.topics,
              {schema}.subscriptions, {schema}.intakes, {schema}.controls, {schema}.schedules, {schema}.retired,
              {schema}.trimmed TO {schema}_worker;
        GRANT SELECT, UPDATE, DELETE ON {schema}.dedup, {schema}.duplicates TO {schema}_worker;
        GRANT SELECT, UPDATE ON {schema}.leases TO {schema}_worker;
        GRANT SELECT ON {schema}.story, {schema}.partitions, {schema}.schema_migrations, {schema}.schema_functions
           TO {schema}_worker;
        GRANT SELECT, UPDATE ON SEQUENCE {schema}.events_flag, {schema}.commands_flag TO {schema}_worker;
        GRANT SELECT ON SEQUENCE {schema}.events_id_seq TO {schema}_worker;
    END IF;
END
$do$;
