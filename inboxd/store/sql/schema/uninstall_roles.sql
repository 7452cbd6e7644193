-- The roles that were made with the schema: who is a member, which other databases depend on them, and what of this
-- database, outside of the schema, is theirs.
-- parameters: none
-- returns: role, members (text[]), databases (text[], others of this server), owned (text[], things outside the schema)
-- locks: nothing
SELECT r.rolname::text AS role,
       ARRAY(SELECT DISTINCT m.rolname::text FROM pg_auth_members JOIN pg_roles m ON m.oid = member
              WHERE roleid = r.oid AND m.rolname <> current_user ORDER BY 1) AS members,
       ARRAY(SELECT DISTINCT coalesce(db.datname::text, d.dbid::text)
               FROM pg_shdepend d LEFT JOIN pg_database db ON db.oid = d.dbid
              WHERE d.refclassid = 'pg_authid'::regclass AND d.refobjid = r.oid
                AND d.dbid NOT IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
              ORDER BY 1) AS databases,
       ARRAY(SELECT pg_describe_object(d.classid, d.objid, d.objsubid)
               FROM pg_shdepend d
              WHERE d.refclassid = 'pg_authid'::regclass AND d.refobjid = r.oid AND d.deptype IN ('o', 'r')
                AND d.dbid IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
              ORDER BY 1 LIMIT 5) AS owned
  FROM pg_roles r WHERE r.rolname IN ('{schema}_producer', '{schema}_worker') ORDER BY 1
