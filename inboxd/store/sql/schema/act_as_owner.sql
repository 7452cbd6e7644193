-- Until the transaction ends, act as the owner of the schema, where this role is a member of it and no superuser.
-- parameters: none
-- returns: the role, if there is such an owner
-- locks: nothing
SELECT set_config('role', owner.rolname, true)
  FROM pg_namespace n
  JOIN pg_roles owner ON owner.oid = n.nspowner AND owner.rolname <> 'pg_database_owner'
  JOIN pg_roles me ON me.rolname = current_user
 WHERE n.nspname = '{schema}' AND owner.oid <> me.oid AND NOT me.rolsuper AND pg_has_role(owner.oid, 'MEMBER')
