-- The privileges that the daemon needs and a role lacks, each with the statement that grants it.
-- The worker's role gets them from migrations/0002_roles.sql and its successors, and from the functions' files.
-- Partitions are reached through their parents; the schema's owner makes later ones.
-- parameters: $1 text role (null: this one), $2 text[] functions
-- returns: privilege, object, remedy (SQL); no row if none is missing
-- locks: nothing
WITH whose(role) AS (SELECT coalesce($1::name, current_user)
), needed(object, wanted) AS (VALUES
    ('events', 'SELECT INSERT DELETE'), ('events_history', 'SELECT INSERT'),
    ('commands', 'SELECT INSERT DELETE'), ('commands_history', 'SELECT INSERT'),
    ('bodies', 'SELECT INSERT'), ('workers', 'SELECT INSERT UPDATE DELETE'),
    ('declared_types', 'SELECT INSERT UPDATE DELETE'), ('stats', 'SELECT INSERT UPDATE DELETE'),
    ('stats_written', 'SELECT INSERT UPDATE DELETE'), ('stats_series', 'SELECT INSERT UPDATE DELETE'),
    ('stats_minutes', 'SELECT INSERT UPDATE DELETE'), ('stats_hours', 'SELECT INSERT UPDATE DELETE'),
    ('stats_days', 'SELECT INSERT UPDATE DELETE'), ('stats_tenants', 'SELECT INSERT UPDATE DELETE'),
    ('stats_tenant_hours', 'SELECT INSERT UPDATE DELETE'), ('stats_tenant_days', 'SELECT INSERT UPDATE DELETE'),
    ('batches', 'SELECT INSERT UPDATE DELETE'), ('batch_progress', 'SELECT INSERT UPDATE DELETE'),
    ('batch_changes', 'SELECT INSERT UPDATE DELETE'), ('batch_totals', 'SELECT INSERT UPDATE DELETE'),
    ('dependencies', 'SELECT INSERT UPDATE DELETE'), ('steps', 'SELECT INSERT UPDATE DELETE'),
    ('replays', 'SELECT INSERT UPDATE DELETE'), ('story', 'SELECT'),
    ('dedup', 'SELECT UPDATE DELETE'), ('duplicates', 'SELECT UPDATE DELETE'),
    ('audit', 'SELECT INSERT'), ('schema_migrations', 'SELECT'), ('schema_functions', 'SELECT'),
    ('plugin_migrations', 'SELECT'), ('breakers', 'SELECT INSERT UPDATE DELETE'),
    ('endpoints', 'SELECT INSERT UPDATE DELETE'), ('sent_webhooks', 'SELECT UPDATE DELETE'),
    ('controls', 'SELECT INSERT UPDATE DELETE'), ('schedules', 'SELECT INSERT UPDATE DELETE'),
    ('limits', 'SELECT INSERT UPDATE DELETE'), ('leases', 'SELECT INSERT UPDATE'),
    ('retired', 'SELECT INSERT UPDATE DELETE'), ('trimmed', 'SELECT INSERT UPDATE DELETE'),
    ('census', 'SELECT INSERT UPDATE DELETE'), ('census_types', 'SELECT INSERT UPDATE DELETE'),
    ('census_tenants', 'SELECT INSERT UPDATE DELETE'),
    ('partitions', 'SELECT'), ('relay_leases', 'SELECT INSERT UPDATE DELETE'),
    ('topics', 'SELECT INSERT UPDATE DELETE'), ('subscriptions', 'SELECT INSERT UPDATE DELETE'),
    ('intakes', 'SELECT INSERT UPDATE DELETE'), ('receivers', 'SELECT INSERT UPDATE DELETE'),
    ('receipts', 'SELECT'), ('kept_receipts', 'SELECT'), ('held_receipts', 'SELECT'), ('held_sources', 'SELECT'),
    ('every_partition', 'SELECT'),
    ('stream_positions', 'SELECT INSERT UPDATE DELETE'), ('message_readers', 'SELECT INSERT UPDATE DELETE'),
    ('samples', 'SELECT INSERT UPDATE DELETE'), ('newest_sample', 'SELECT INSERT UPDATE DELETE'),
    ('sampled_lanes', 'SELECT INSERT UPDATE DELETE'), ('actions', 'SELECT INSERT UPDATE DELETE'),
    ('notices', 'SELECT INSERT UPDATE DELETE'), ('breaker_changes', 'SELECT INSERT DELETE'),
    ('archived_failures', 'SELECT INSERT UPDATE DELETE'), ('key_rates', 'SELECT INSERT UPDATE DELETE'),
    ('received_sources', 'SELECT'),
    ('statement_sources', 'SELECT INSERT UPDATE DELETE'), ('statement_checks', 'SELECT INSERT UPDATE DELETE'),
    ('statement_days', 'SELECT INSERT UPDATE DELETE'), ('statement_lines', 'SELECT INSERT UPDATE DELETE'),
    ('statement_findings', 'SELECT INSERT UPDATE DELETE'), ('statement_settled', 'SELECT INSERT UPDATE DELETE'),
    ('statement_strays', 'SELECT INSERT UPDATE DELETE'), ('statement_trimmed', 'SELECT INSERT UPDATE DELETE'),
    ('statement_moves', 'SELECT INSERT UPDATE DELETE'), ('statement_duplicates', 'SELECT INSERT UPDATE DELETE'),
    ('statement_receipts', 'SELECT INSERT UPDATE DELETE'), ('statement_positions', 'SELECT INSERT UPDATE DELETE')
), changed(object, columns) AS (VALUES  -- what became of a row; what it says is not the daemon's to change
    ('events', '{changed event}, mode, errors, fingerprint, position, head'),
    ('commands', '{changed command}, fence, worker_id, started_at, line_at, errors, fingerprint, progress, '
                 'suspect_group, lone_crashes, alone_fence'),
    ('audit', 'count')
), lacking(privilege, object, remedy) AS (
    SELECT 'USAGE', 'schema {schema}', 'GRANT USAGE ON SCHEMA {schema}'
      FROM whose, pg_namespace WHERE nspname = '{schema}' AND NOT has_schema_privilege(whose.role, oid, 'USAGE')
    UNION ALL
    SELECT privilege, format('table {schema}.%I', object),
           format('GRANT %s ON {schema}.%I', privilege, object)
      FROM whose, needed
      JOIN pg_class c ON c.relname = object AND c.relnamespace = to_regnamespace('{schema}')
     CROSS JOIN unnest(string_to_array(wanted, ' ')) AS privilege
     WHERE NOT has_table_privilege(whose.role, c.oid, privilege)
    UNION ALL
    SELECT 'UPDATE', format('table {schema}.%I', object), format('GRANT UPDATE (%s) ON {schema}.%I', columns, object)
      FROM whose, changed
      JOIN pg_class c ON c.relname = object AND c.relnamespace = to_regnamespace('{schema}')
     WHERE EXISTS (SELECT FROM unnest(string_to_array(columns, ', ')) AS name
                    WHERE NOT has_column_privilege(whose.role, c.oid, name, 'UPDATE'))
    UNION ALL
    SELECT 'UPDATE', format('sequence {schema}.%I', relname),
           format('GRANT USAGE, SELECT, UPDATE ON SEQUENCE {schema}.%I', relname)
      FROM whose, pg_class
     WHERE relnamespace = to_regnamespace('{schema}') AND relkind = 'S'
       AND relname IN ('events_flag', 'commands_flag') AND NOT has_sequence_privilege(whose.role, oid, 'UPDATE')
    UNION ALL
    SELECT 'SELECT', format('sequence {schema}.%I', relname),
           format('GRANT SELECT ON SEQUENCE {schema}.%I', relname)
      FROM whose, pg_class
     WHERE relnamespace = to_regnamespace('{schema}') AND relkind = 'S'
       AND relname = 'events_id_seq' AND NOT has_sequence_privilege(whose.role, oid, 'SELECT')
    UNION ALL
    SELECT 'EXECUTE', format('function {schema}.%I', proname),
           format('GRANT EXECUTE ON FUNCTION {schema}.%I', proname)
      FROM whose, pg_proc
     WHERE pronamespace = to_regnamespace('{schema}')
       AND proname = ANY ($2)
       AND NOT has_function_privilege(whose.role, oid, 'EXECUTE')
)
SELECT privilege, object, format('%s TO %I;', remedy, role) AS remedy FROM whose, lacking
