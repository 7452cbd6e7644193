-- The roles besides inboxd's own that may call these functions.
-- parameters: $1 text[] functions
-- returns: function, role (a quoted name), passes (it may let others call it)
-- locks: nothing
SELECT p.proname AS function, acl.grantee::regrole::text AS role, bool_or(acl.is_grantable) AS passes
  FROM pg_proc p CROSS JOIN LATERAL aclexplode(p.proacl) acl
 WHERE p.pronamespace = '{schema}'::regnamespace AND p.proname = ANY ($1::text[])
   AND acl.grantee NOT IN (0, p.proowner)
   AND acl.grantee NOT IN (
       SELECT r.oid FROM pg_roles r
        WHERE r.rolname IN ('{schema}_operator', '{schema}_producer', '{schema}_receiver', '{schema}_viewer', '{schema}_worker'))
 GROUP BY 1, 2
