-- Tables with row level security, and the roles from which it hides rows without an error: this role and inboxd's roles
-- (whose members log in), if they may use the table, and the owner, whose privileges functions have.
-- It exempts superusers, roles with BYPASSRLS and, unless it is forced, the owner. A policy that lets a role do everything
-- hides nothing from it, unless another one restricts that. Partitions are left out: they are reached through their
-- tables, whose security counts.
-- parameters: none
-- returns: name, remedy (SQL that switches it off), from_me, from_owner (boolean), from_roles (text[]),
--          is_unknown (this role is exempt, and none of inboxd's roles exists)
-- locks: nothing
WITH known(oid, name, is_me) AS (
    SELECT oid, rolname::text, rolname = current_user FROM pg_roles
     WHERE rolname = current_user
        OR rolname = ANY (ARRAY['{schema}_operator', '{schema}_producer', '{schema}_receiver', '{schema}_viewer',
                                '{schema}_worker'])
), secured(oid, name, owner, forced) AS (
    SELECT oid, relname::text, relowner, relforcerowsecurity FROM pg_class
     WHERE relnamespace = to_regnamespace('{schema}') AND relrowsecurity AND NOT relispartition
), who(name, oid, role, is_me, is_owner, forced) AS (
    SELECT s.name, s.oid, k.oid, k.is_me, false, s.forced OR NOT pg_has_role(k.oid, s.owner, 'USAGE')
      FROM secured s JOIN known k ON has_any_column_privilege(k.oid, s.oid, 'SELECT, INSERT, UPDATE')
    UNION ALL
    SELECT name, oid, owner, false, true, forced FROM secured
), looked(name, role, is_me, is_owner, active, is_open) AS (
    SELECT w.name, r.rolname::text, w.is_me, w.is_owner, w.forced AND NOT (r.rolsuper OR r.rolbypassrls),
           EXISTS (SELECT FROM pg_policy p CROSS JOIN unnest(p.polroles) AS given(role)
                    WHERE p.polrelid = w.oid AND p.polpermissive AND p.polcmd = '*'
                      AND pg_get_expr(p.polqual, p.polrelid) = 'true'
                      AND coalesce(pg_get_expr(p.polwithcheck, p.polrelid), 'true') = 'true'
                      AND (given.role = 0 OR pg_has_role(w.role, given.role, 'USAGE')))
           AND NOT EXISTS (SELECT FROM pg_policy p CROSS JOIN unnest(p.polroles) AS given(role)
                            WHERE p.polrelid = w.oid AND NOT p.polpermissive
                              AND (given.role = 0 OR pg_has_role(w.role, given.role, 'USAGE')))
      FROM who w JOIN pg_roles r ON r.oid = w.role
)
SELECT name, format('ALTER TABLE {schema}.%I DISABLE ROW LEVEL SECURITY;', name) AS remedy,
       coalesce(bool_or(active AND NOT is_open) FILTER (WHERE is_me), false) AS from_me,
       coalesce(bool_or(active AND NOT is_open) FILTER (WHERE is_owner), false) AS from_owner,
       coalesce(array_agg(role ORDER BY role) FILTER (WHERE active AND NOT (is_open OR is_me OR is_owner)), '{}')
           AS from_roles,
       coalesce(bool_or(NOT active) FILTER (WHERE is_me), false) AND NOT EXISTS (SELECT FROM known WHERE NOT is_me)
           AS is_unknown
  FROM looked GROUP BY name ORDER BY name
