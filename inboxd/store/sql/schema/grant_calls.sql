-- SQL that lets a role call a function: statements, since a role's name cannot be a parameter.
-- parameters: $1 text function, $2 text role (a quoted name), $3 boolean it may let others call it
-- returns: statement (SQL)
-- locks: nothing
SELECT format('GRANT EXECUTE ON FUNCTION %s TO %s%s', p.oid::regprocedure, $2::text,
              CASE WHEN $3::boolean THEN ' WITH GRANT OPTION' ELSE '' END) AS statement
  FROM pg_proc p WHERE p.pronamespace = '{schema}'::regnamespace AND p.proname = $1::text
