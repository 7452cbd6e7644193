-- The statement that lets this role inherit the privileges of inboxd's role, if it is a member and now gets them only after
-- SET ROLE.
-- parameters: $1 text whose (worker, operator, viewer)
-- returns: remedy (SQL); no row if this role inherits them, or is not a member
-- locks: nothing
SELECT CASE WHEN current_setting('server_version_num')::integer >= 160000
            THEN format('GRANT %I TO %I WITH INHERIT TRUE;', role.rolname, me.rolname)
            ELSE format('ALTER ROLE %I INHERIT;', me.rolname) END AS remedy
  FROM pg_roles role, pg_roles me
 WHERE role.rolname = '{schema}_' || $1::text AND me.rolname = current_user
   AND pg_has_role(me.oid, role.oid, 'MEMBER') AND NOT pg_has_role(me.oid, role.oid, 'USAGE')
