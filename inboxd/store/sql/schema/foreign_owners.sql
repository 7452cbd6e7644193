-- Objects in the schema whose owner could run code as this role, as the owner of a function decides what it does: the owner
-- is neither this role, nor a superuser, nor a role whose privileges this role has (a superuser has those of all).
-- Objects of pg_database_owner (the schema public) count as the database owner's.
-- parameters: none
-- returns: kind, object, name (its owner); the schema first
-- locks: nothing
SELECT owned.kind, owned.object, pg_get_userbyid(whose.owner)::text AS name
  FROM (SELECT 'schema' AS kind, quote_ident(nspname) AS object, nspowner AS owner
          FROM pg_namespace WHERE nspname = '{schema}'
        UNION ALL
        SELECT CASE relkind WHEN 'S' THEN 'sequence' WHEN 'v' THEN 'view' ELSE 'table' END, oid::regclass::text, relowner
          FROM pg_class WHERE relnamespace = to_regnamespace('{schema}') AND relkind IN ('r', 'p', 'v', 'S')
        UNION ALL
        SELECT 'function', oid::regprocedure::text, proowner
          FROM pg_proc WHERE pronamespace = to_regnamespace('{schema}')) AS owned
  JOIN pg_roles me ON me.rolname = current_user
  JOIN pg_database here ON here.datname = current_database()
 CROSS JOIN LATERAL (SELECT CASE WHEN pg_get_userbyid(owned.owner) = 'pg_database_owner' THEN here.datdba
                                 ELSE owned.owner END) AS whose(owner)
 WHERE whose.owner <> me.oid AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = whose.owner AND r.rolsuper)
   AND (me.rolsuper OR NOT pg_has_role(whose.owner, 'USAGE'))
 ORDER BY owned.kind <> 'schema', owned.kind, owned.object
