-- SQL that drops one of the schema's roles: statements, since a role's name cannot be a parameter. Privileges that others
-- granted to it in this database are dropped first, if there are any.
-- parameters: $1 text role
-- returns: statement (SQL)
-- locks: nothing
SELECT format('DROP OWNED BY %I', $1::text) AS statement
 WHERE EXISTS (SELECT FROM pg_shdepend
                WHERE classid <> 'pg_auth_members'::regclass AND refclassid = 'pg_authid'::regclass AND refobjid = to_regrole(quote_ident($1::text)))
UNION ALL
SELECT format('DROP ROLE %I', $1::text) WHERE to_regrole(quote_ident($1::text)) IS NOT NULL
