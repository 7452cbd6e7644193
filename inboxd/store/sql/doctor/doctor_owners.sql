-- Objects in the schema whose owner is neither the schema's owner nor a superuser.
-- parameters: none
-- returns: kind, object, name (its owner), remedy (the statement that gives it to the schema's owner)
-- locks: nothing
SELECT owned.kind, owned.object, pg_get_userbyid(owned.owner)::text AS name,
       format('ALTER %s %s OWNER TO %I;', upper(owned.kind), owned.object, pg_get_userbyid(n.nspowner)) AS remedy
  FROM pg_namespace n
 CROSS JOIN LATERAL (
       SELECT CASE relkind WHEN 'S' THEN 'sequence' WHEN 'v' THEN 'view' ELSE 'table' END AS kind,
              c.oid::regclass::text AS object, c.relowner AS owner
         FROM pg_class c WHERE c.relnamespace = n.oid AND c.relkind IN ('r', 'p', 'v', 'S')
       UNION ALL
       SELECT 'function', p.oid::regprocedure::text, p.proowner FROM pg_proc p WHERE p.pronamespace = n.oid) AS owned
 WHERE n.nspname = '{schema}' AND owned.owner <> n.nspowner
   AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = owned.owner AND r.rolsuper)
 ORDER BY owned.kind, owned.object
