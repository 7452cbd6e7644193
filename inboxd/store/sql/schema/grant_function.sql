-- SQL that lets only some roles call a function: statements, since a role's name cannot be a parameter.
-- parameters: $1 text name, $2 text[] roles (operator, producer, receiver, viewer, worker)
-- returns: statement (SQL)
-- locks: nothing
WITH made(signature) AS (
    SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = '{schema}'::regnamespace AND proname = $1
)
SELECT format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', signature) AS statement FROM made
UNION ALL
SELECT format(CASE WHEN role = ANY ($2) THEN 'GRANT EXECUTE ON FUNCTION %s TO %I'
                   ELSE 'REVOKE EXECUTE ON FUNCTION %s FROM %I' END, signature, '{schema}_' || role)
  FROM made, (VALUES ('operator'), ('producer'), ('receiver'), ('viewer'), ('worker')) AS known(role)
 WHERE to_regrole('{schema}_' || role) IS NOT NULL
