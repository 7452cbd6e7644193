-- The privileges that viewers or operators need and a role lacks, each with the statement that grants it: those that their
-- roles get from migrations/0016_readers.sql and its successors, from the same lists, and from the functions' files.
-- parameters: $1 text role (null: this one), $2 text whose (viewer, operator), $3 text[] functions
-- returns: privilege, object, remedy (SQL); no row if none is missing
-- locks: nothing
WITH whose(role) AS (SELECT coalesce($1::name, current_user)
), read(name, from_viewers, from_operators) AS (VALUES
    ('events', 'headers payload errors', ''), ('events_history', 'headers payload errors', ''),
    ('commands', 'payload errors result progress', ''), ('commands_history', 'payload errors result progress', ''),
    ('bodies', '*', ''), ('receipts', 'headers body', ''), ('kept_receipts', 'headers body', ''),
    ('held_receipts', 'events', ''), ('held_sources', '', ''), ('endpoints', 'url secrets last_failure', 'secrets'),
    ('breakers', 'reason', ''), ('schedules', 'payload', ''), ('story', 'error', ''), ('batches', '', ''),
    ('batch_progress', '', ''), ('dependencies', '', ''), ('steps', '', ''), ('replays', '', ''), ('audit', '', ''),
    ('stats', '', ''), ('limits', '', ''), ('workers', '', ''), ('receivers', 'trouble', ''), ('declared_types', '', ''),
    ('stats_written', '', ''), ('stats_series', '', ''), ('stats_minutes', '', ''), ('stats_hours', '', ''),
    ('stats_days', '', ''), ('stats_tenants', '', ''), ('stats_tenant_hours', '', ''), ('stats_tenant_days', '', ''),
    ('samples', '', ''), ('newest_sample', '', ''), ('sampled_lanes', '', ''), ('census', '', ''),
    ('census_types', '', ''), ('census_tenants', '', ''),
    ('topics', '', ''), ('subscriptions', '', ''), ('intakes', '', ''), ('controls', '', ''), ('leases', '', ''),
    ('relay_leases', '', ''), ('stream_positions', '', ''), ('message_readers', 'trouble', ''), ('retired', '', ''),
    ('trimmed', '', ''), ('partitions', '', ''), ('every_partition', '', ''), ('schema_migrations', '', ''),
    ('schema_functions', '', ''), ('plugin_migrations', '', ''), ('actions', 'selection note', ''),
    ('notices', '', ''), ('breaker_changes', '', ''), ('statement_sources', '', ''), ('statement_checks', '', ''),
    ('statement_days', '', ''), ('statement_lines', '', ''), ('statement_findings', '', ''), ('statement_settled', '', ''),
    ('statement_strays', '', ''), ('statement_trimmed', '', ''), ('statement_moves', '', ''),
    ('statement_duplicates', '', ''), ('statement_receipts', '', ''), ('statement_positions', '', ''),
    ('archived_failures', '', ''), ('received_sources', '', ''), ('key_rates', '', ''), ('batch_changes', '', ''),
    ('batch_totals', '', '')
), written(name, privilege, columns) AS (VALUES
    ('events', 'UPDATE', replace('{changed event}', ',', '')), ('commands', 'UPDATE', replace('{changed command}', ',', '')),
    ('batches', 'UPDATE', 'ending needs starting closed_at updated_at'), ('batch_progress', 'INSERT', 'batch_id'),
    ('dependencies', 'DELETE', ''), ('replays', 'INSERT', ''), ('audit', 'INSERT', ''), ('audit', 'UPDATE', 'count'),
    ('controls', 'INSERT', ''), ('controls', 'UPDATE', ''), ('controls', 'DELETE', ''),
    ('breakers', 'UPDATE', 'mode actor forced_for version changed_at state open_until opens probe_by probe_until'),
    ('endpoints', 'UPDATE', 'enabled disabled_at disabled_by disabled_reason failing_since version changed_at'),
    ('subscriptions', 'DELETE', ''), ('actions', 'INSERT', ''),
    ('actions', 'UPDATE', 'status goes_on_as note failures next_at ended_at'),
    ('stream_positions', 'UPDATE', 'position begins identity fence reader stored_at'),
    ('archived_failures', 'INSERT', ''), ('archived_failures', 'UPDATE', ''), ('archived_failures', 'DELETE', ''),
    ('statement_findings', 'UPDATE', 'accepted_at accepted_by')
), tables(name, oid) AS (
    SELECT c.relname, c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = '{schema}'
), unread(name, columns) AS (
    SELECT name, string_agg(format('%I', a.attname), ', ' ORDER BY a.attnum)
      FROM whose, tables JOIN read USING (name)
     CROSS JOIN LATERAL (SELECT CASE $2 WHEN 'viewer' THEN from_viewers ELSE from_operators END) AS kept(columns)
      JOIN pg_attribute a ON a.attrelid = tables.oid AND NOT a.attisdropped
       AND (a.attnum > 0 OR a.attname = 'ctid' AND name ~ '^(events|commands)(_history)?$')
     WHERE kept.columns <> '*' AND a.attname <> ALL (string_to_array(kept.columns, ' '))
       AND NOT has_column_privilege(whose.role, tables.oid, a.attnum, 'SELECT')
     GROUP BY name
), unwritten(name, privilege, columns) AS (
    SELECT name, privilege, replace(columns, ' ', ', ')
      FROM whose, tables JOIN written USING (name)
     WHERE $2 <> 'viewer'
       AND CASE WHEN columns = '' THEN NOT has_table_privilege(whose.role, tables.oid, privilege)
                ELSE EXISTS (SELECT FROM unnest(string_to_array(columns, ' ')) AS a(name)
                              WHERE NOT has_column_privilege(whose.role, tables.oid, a.name, privilege)) END
), lacking(privilege, object, remedy) AS (
    SELECT 'USAGE', 'schema {schema}', 'GRANT USAGE ON SCHEMA {schema}'
      FROM whose, pg_namespace WHERE nspname = '{schema}' AND NOT has_schema_privilege(whose.role, oid, 'USAGE')
    UNION ALL
    SELECT 'SELECT', format('table {schema}.%I', name), format('GRANT SELECT (%s) ON {schema}.%I', columns, name)
      FROM unread
    UNION ALL
    SELECT privilege, format('table {schema}.%I', name),
           format('GRANT %s%s ON {schema}.%I', privilege, ' (' || nullif(columns, '') || ')', name)
      FROM unwritten
    UNION ALL
    SELECT 'EXECUTE', format('function {schema}.%I', proname), format('GRANT EXECUTE ON FUNCTION {schema}.%I', proname)
      FROM whose, pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace AND n.nspname = '{schema}'
     WHERE proname = ANY ($3::text[]) AND NOT has_function_privilege(whose.role, p.oid, 'EXECUTE')
)
SELECT privilege, object, format('%s TO %I;', remedy, role) AS remedy FROM whose, lacking
