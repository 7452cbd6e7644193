-- Functions of inboxd that PUBLIC may call, with the privileges of the schema's owner, as after restoring a dump where the
-- roles are missing. Each with the statement that revokes this.
-- parameters: none
-- returns: name, remedy (SQL)
-- locks: nothing
SELECT f.name, format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC;', p.oid::regprocedure) AS remedy
  FROM {schema}.schema_functions f
  JOIN pg_proc p ON p.pronamespace = to_regnamespace('{schema}') AND p.proname = f.name
 WHERE has_function_privilege('public', p.oid, 'EXECUTE')
 ORDER BY f.name
