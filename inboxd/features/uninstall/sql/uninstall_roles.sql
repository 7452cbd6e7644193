-- The roles that were made with the schema: their members, other databases that depend on them, and the objects of this
-- database that they own outside of the schema.
-- parameters: none
-- returns: role, members (text[]), databases (text[], others of this server), owned (text[], objects outside of the schema)
-- locks: nothing
SELECT r.rolname::text AS role,
       ARRAY(SELECT DISTINCT m.rolname::text FROM pg_auth_members JOIN pg_roles m ON m.oid = member
              WHERE roleid = r.oid AND m.rolname <> current_user ORDER BY 1) AS members,
       ARRAY(SELECT DISTINCT coalesce(db.datname::text, d.dbid::text)
               FROM pg_shdepend d LEFT JOIN pg_database db ON db.oid = d.dbid
              WHERE d.refclassid = 'pg_authid'::regclass AND d.refobjid = r.oid
                AND d.dbid NOT IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
              ORDER BY 1) AS databases,
       ARRAY(SELECT pg_describe_object(classid, objid, objsubid)
               FROM (SELECT classid, objid, objsubid FROM pg_shdepend
                      WHERE refclassid = 'pg_authid'::regclass AND refobjid = r.oid AND deptype IN ('o', 'r')
                        AND dbid IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
                     OFFSET 0) here -- before the look at their schemas: what another database has is unknown here
              WHERE coalesce(CASE classid
                        WHEN 'pg_namespace'::regclass THEN objid
                        WHEN 'pg_policy'::regclass THEN
                            (SELECT relnamespace FROM pg_policy JOIN pg_class c ON c.oid = polrelid WHERE pg_policy.oid = objid)
                        WHEN 'pg_default_acl'::regclass THEN (SELECT defaclnamespace FROM pg_default_acl WHERE oid = objid)
                        ELSE to_regnamespace((pg_identify_object(classid, objid, objsubid)).schema)
                    END, 0) IS DISTINCT FROM to_regnamespace('{schema}')::oid
              ORDER BY 1 LIMIT 5) AS owned
  FROM pg_roles r WHERE r.rolname IN ('{schema}_operator', '{schema}_producer', '{schema}_receiver', '{schema}_viewer', '{schema}_worker') ORDER BY 1
