-- The privileges that producers or receivers need and a role lacks, each with the statement that grants it: those that
-- their roles get from migrations/0002_roles.sql and 0006_receipts.sql, and from the functions' files.
-- parameters: $1 text role (null: this one), $2 text whose (producer, receiver), $3 text[] functions
-- returns: privilege, object, remedy (SQL); no row if none is missing
-- locks: nothing
WITH whose(role) AS (SELECT coalesce($1::name, current_user)
), wanted(whose, name, privilege, columns) AS (VALUES
    ('producer', 'events', 'SELECT', 'id, event_id, topic'),
    ('producer', 'events', 'INSERT', '{inserted event}'),
    ('producer', 'commands', 'SELECT', 'id, command_id'),
    ('producer', 'commands', 'INSERT', '{inserted command}'),
    ('receiver', 'controls', 'SELECT', ''), ('receiver', 'schema_migrations', 'SELECT', ''),
    ('receiver', 'schema_functions', 'SELECT', ''), ('receiver', 'receivers', 'SELECT', ''),
    ('receiver', 'receivers', 'INSERT', ''), ('receiver', 'receivers', 'UPDATE', ''),
    ('receiver', 'receivers', 'DELETE', '')
), lacking(privilege, object, remedy) AS (
    SELECT 'USAGE', 'schema {schema}', 'GRANT USAGE ON SCHEMA {schema}'
      FROM whose, pg_namespace WHERE nspname = '{schema}' AND NOT has_schema_privilege(whose.role, oid, 'USAGE')
    UNION ALL
    SELECT wanted.privilege, format('table {schema}.%I', wanted.name),
           format('GRANT %s%s ON {schema}.%I', wanted.privilege, ' (' || nullif(wanted.columns, '') || ')', wanted.name)
      FROM whose, wanted
      JOIN pg_class c ON c.relname = wanted.name AND c.relnamespace = to_regnamespace('{schema}')
     WHERE wanted.whose = $2::text
       AND CASE WHEN wanted.columns = '' THEN NOT has_table_privilege(whose.role, c.oid, wanted.privilege)
                ELSE EXISTS (SELECT FROM unnest(string_to_array(wanted.columns, ', ')) AS a(name)
                              WHERE NOT has_column_privilege(whose.role, c.oid, a.name, wanted.privilege)) END
    UNION ALL
    SELECT 'EXECUTE', format('function {schema}.%I', proname), format('GRANT EXECUTE ON FUNCTION {schema}.%I', proname)
      FROM whose, pg_proc
     WHERE pronamespace = to_regnamespace('{schema}') AND proname = ANY ($3::text[])
       AND NOT has_function_privilege(whose.role, oid, 'EXECUTE')
)
SELECT privilege, object, format('%s TO %I;', remedy, role) AS remedy FROM whose, lacking
