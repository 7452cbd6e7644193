-- The role that has what workers, operators or viewers need, where this role would get it by a grant.
-- parameters: $1 text whose (worker, operator, viewer)
-- returns: name; no row when there is none, this role inherits nothing, or is a member of it already
-- locks: nothing
SELECT role.rolname AS name
  FROM pg_roles role, pg_roles me
 WHERE role.rolname = '{schema}_' || $1::text AND me.rolname = current_user
   AND me.rolinherit AND NOT pg_has_role(me.oid, role.oid, 'MEMBER')
