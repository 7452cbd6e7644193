-- Roles for people and their tools: viewers, who read no contents, and operators.
-- oldest code: 3
-- functions: first
--
-- Rights are granted column by column, so that a column that a later migration adds is nobody's to read until it says
-- so. Partitions have no grants: they are reached through their parents. As in 0002, without the right to create roles
-- an administrator grants the same to roles of their own (`inboxd check --as`). The lists are also in
-- inboxd/store/sql/schema/check_readers.sql; a test compares them.

DO $do$
DECLARE
    name text;
    one record;
BEGIN
    FOREACH name IN ARRAY ARRAY['{schema}_viewer', '{schema}_operator'] LOOP
        IF to_regrole(name) IS NULL THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', name);
            EXCEPTION
                WHEN duplicate_object OR unique_violation THEN NULL;
                WHEN insufficient_privilege THEN
                    RAISE NOTICE 'role % was not created: the right to create roles is missing', name;
            END;
        END IF;
        CONTINUE WHEN to_regrole(name) IS NULL;
        EXECUTE format('GRANT USAGE ON SCHEMA {schema} TO %I', name);
    END LOOP;

    -- A list counts the blocks that it reads, by ctid. What is read: the table, and of its columns those that viewers, and those that operators do not see (*: all).
    FOR one IN
        SELECT role.name AS role, wanted.name, string_agg(format('%I', a.attname), ', ' ORDER BY a.attnum) AS columns
          FROM (VALUES
                ('events', 'headers payload errors', ''), ('events_history', 'headers payload errors', ''),
                ('commands', 'payload errors result progress', ''),
                ('commands_history', 'payload errors result progress', ''), ('bodies', '*', ''),
                ('receipts', 'headers body', ''), ('kept_receipts', 'headers body', ''),
                ('held_receipts', 'events', ''), ('held_sources', '', ''),
                ('endpoints', 'url secrets last_failure', 'secrets'), ('breakers', 'reason', ''),
                ('schedules', 'payload', ''), ('story', 'error', ''), ('batches', '', ''),
                ('batch_progress', '', ''), ('dependencies', '', ''), ('steps', '', ''), ('replays', '', ''),
                ('audit', '', ''), ('stats', '', ''), ('limits', '', ''), ('workers', '', ''), ('receivers', '', ''),
                ('stats_written', '', ''), ('stats_series', '', ''), ('stats_minutes', '', ''), ('stats_hours', '', ''),
                ('stats_days', '', ''), ('stats_tenants', '', ''), ('stats_tenant_hours', '', ''), ('stats_tenant_days', '', ''),
                ('samples', '', ''), ('newest_sample', '', ''), ('sampled_lanes', '', ''), ('census', '', ''),
                ('census_types', '', ''), ('census_tenants', '', ''),
                ('declared_types', '', ''), ('topics', '', ''), ('subscriptions', '', ''), ('intakes', '', ''),
                ('controls', '', ''), ('leases', '', ''), ('relay_leases', '', ''), ('stream_positions', '', ''),
                ('message_readers', '', ''), ('retired', '', ''), ('trimmed', '', ''), ('partitions', '', ''),
                ('every_partition', '', ''), ('schema_migrations', '', ''), ('schema_functions', '', ''),
                ('plugin_migrations', '', '')
               ) AS wanted(name, from_viewers, from_operators)
         CROSS JOIN LATERAL (VALUES ('{schema}_viewer', from_viewers), ('{schema}_operator', from_operators))
               AS role(name, withheld)
          JOIN pg_attribute a ON a.attrelid = to_regclass('{schema}.' || wanted.name) AND NOT a.attisdropped
           AND (a.attnum > 0 OR a.attname = 'ctid' AND wanted.name ~ '^(events|commands)(_history)?$')
           AND role.withheld <> '*' AND a.attname <> ALL (string_to_array(role.withheld, ' '))
         WHERE to_regrole(role.name) IS NOT NULL
         GROUP BY role.name, wanted.name
    LOOP
        EXECUTE format('GRANT SELECT (%s) ON {schema}.%I TO %I', one.columns, one.name, one.role);
    END LOOP;

    -- What operators write: what becomes of a row, never what it says. Rows that move or are made anew are moved and
    -- made by functions (put_away, replay_commands).
    IF to_regrole('{schema}_operator') IS NOT NULL THEN
        FOR one IN
            SELECT wanted.name, wanted.privilege,
                   coalesce('(' || nullif(replace(wanted.columns, ' ', ', '), '') || ')', '') AS columns
              FROM (VALUES
                    ('events', 'UPDATE', 'status attempts crashes run_at updated_at'),
                    ('commands', 'UPDATE', 'status attempts crashes cancel_requested run_at deadline priority updated_at'),
                    ('batches', 'UPDATE', 'ending needs starting closed_at updated_at'),
                    ('batch_progress', 'INSERT', 'batch_id'), ('dependencies', 'DELETE', ''),
                    ('replays', 'INSERT', ''), ('audit', 'INSERT', ''), ('audit', 'UPDATE', 'count'),
                    ('controls', 'INSERT', ''), ('controls', 'UPDATE', ''), ('controls', 'DELETE', ''),
                    ('breakers', 'UPDATE', 'mode actor forced_for version changed_at state open_until opens probe_by probe_until'),
                    ('endpoints', 'UPDATE', 'enabled disabled_at disabled_by disabled_reason failing_since version changed_at'),
                    ('subscriptions', 'DELETE', ''),
                    ('stream_positions', 'UPDATE', 'position begins identity fence reader stored_at')
                   ) AS wanted(name, privilege, columns)
        LOOP
            EXECUTE format('GRANT %s %s ON {schema}.%I TO {schema}_operator', one.privilege, one.columns, one.name);
        END LOOP;
        GRANT EXECUTE ON FUNCTION
            {schema}.is_unhandled, {schema}.receipt_time, {schema}.release_receipts, {schema}.fold_batch,
            {schema}.close_batch, {schema}.dismiss_events, {schema}.put_away,
            {schema}.replay_commands, {schema}.resend_deliveries
            TO {schema}_operator;
    END IF;
    -- In a new schema the functions were made before the roles were.
    IF to_regrole('{schema}_viewer') IS NOT NULL THEN
        GRANT EXECUTE ON FUNCTION {schema}.is_unhandled, {schema}.receipt_time TO {schema}_viewer;
    END IF;
END
$do$;
