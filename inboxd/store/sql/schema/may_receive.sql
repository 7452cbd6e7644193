-- Whether this role has what a receiver needs: what the receiver's role is granted, and its functions.
-- parameters: $1 text[] functions
-- returns: boolean
-- locks: nothing
SELECT coalesce((SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = '{schema}'), false)
   AND coalesce((SELECT bool_and(has_table_privilege(c.oid, privilege))
                   FROM (VALUES ('controls', 'SELECT'), ('schema_migrations', 'SELECT'), ('schema_functions', 'SELECT'),
                                ('receivers', 'SELECT'), ('receivers', 'INSERT'), ('receivers', 'UPDATE'),
                                ('receivers', 'DELETE')) AS needed(name, privilege)
                   JOIN pg_class c ON c.relname = needed.name AND c.relnamespace = to_regnamespace('{schema}')), false)
   AND coalesce((SELECT bool_and(has_function_privilege(oid, 'EXECUTE')) FROM pg_proc
                  WHERE pronamespace = to_regnamespace('{schema}') AND proname = ANY ($1::text[])), false)
