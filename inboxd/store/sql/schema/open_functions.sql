-- Functions of inboxd's that everybody may call, with the rights of the schema's owner; a dump that is restored where
-- the roles are missing leaves them so. Each with the statement that ends it.
-- parameters: none
-- returns: name, remedy (SQL)
-- locks: nothing
SELECT f.name, format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC;', p.oid::regprocedure) AS remedy
  FROM {schema}.schema_functions f
  JOIN pg_proc p ON p.pronamespace = to_regnamespace('{schema}') AND p.proname = f.name
 WHERE has_function_privilege('public', p.oid, 'EXECUTE')
 ORDER BY f.name
