-- Schemas of this login's search path in which other roles may create functions and operators. A function that matches
-- a call better than PostgreSQL's own is called instead, with the rights of this login. Superusers, the owner of the
-- database, the owner of the inbox and roles whose rights this login has are left out.
-- parameters: none
-- returns: schema, role (null: every role), remedy (the statement that takes the right)
-- locks: nothing
SELECT n.nspname::text AS schema, r.rolname::text AS role,
       format('REVOKE CREATE ON SCHEMA %I FROM %s;', n.nspname, coalesce(quote_ident(r.rolname), 'PUBLIC')) AS remedy
  FROM pg_settings s
 CROSS JOIN LATERAL (SELECT btrim(part, '"') AS name FROM regexp_split_to_table(s.reset_val, '\s*,\s*') AS part) AS path
  JOIN pg_roles me ON me.rolname = current_user
  JOIN pg_namespace n ON n.nspname = CASE path.name WHEN '$user' THEN me.rolname::text ELSE path.name END
 CROSS JOIN LATERAL aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) AS granted
  LEFT JOIN pg_roles r ON r.oid = granted.grantee
 WHERE s.name = 'search_path' AND granted.privilege_type = 'CREATE' AND n.nspname <> 'pg_catalog'
   AND (granted.grantee = 0
        OR NOT (r.rolsuper OR r.rolname IN (me.rolname, 'pg_database_owner')
                OR (NOT me.rolsuper AND pg_has_role(r.oid, 'USAGE'))
                OR r.oid IN (SELECT datdba FROM pg_database WHERE datname = current_database()
                             UNION ALL SELECT nspowner FROM pg_namespace WHERE nspname = '{schema}')))
 ORDER BY 1, 2 NULLS FIRST
