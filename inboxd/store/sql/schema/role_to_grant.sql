-- The role with the privileges of workers, operators or viewers, if this role would get them by a grant of it.
-- parameters: $1 text whose (worker, operator, viewer)
-- returns: name; no row if the role does not exist, or this role inherits nothing, or is already a member of it
-- locks: nothing
SELECT role.rolname AS name
  FROM pg_roles role, pg_roles me
 WHERE role.rolname = '{schema}_' || $1::text AND me.rolname = current_user
   AND me.rolinherit AND NOT pg_has_role(me.oid, role.oid, 'MEMBER')
