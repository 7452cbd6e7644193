-- Objects outside of the schema that depend on it: views, foreign keys, defaults, triggers, functions of others, and
-- objects without a schema, such as publications, event triggers and extensions.
-- parameters: none
-- returns: described (as PostgreSQL describes it)
-- locks: nothing
WITH own(classid, objid) AS (
    SELECT 'pg_namespace'::regclass::oid, to_regnamespace('{schema}')::oid
    UNION ALL
    SELECT 'pg_class'::regclass, oid FROM pg_class WHERE relnamespace = to_regnamespace('{schema}')
    UNION ALL
    SELECT 'pg_type'::regclass, oid FROM pg_type WHERE typnamespace = to_regnamespace('{schema}')
    UNION ALL
    SELECT 'pg_proc'::regclass, oid FROM pg_proc WHERE pronamespace = to_regnamespace('{schema}')
), dependents(classid, objid) AS (
    SELECT DISTINCT d.classid, d.objid
      FROM own JOIN pg_depend d ON (d.refclassid, d.refobjid) = (own.classid, own.objid)
), placed(classid, objid, namespace) AS (
    SELECT classid, objid,
           CASE classid
               WHEN 'pg_class'::regclass THEN (SELECT relnamespace FROM pg_class WHERE oid = objid)
               WHEN 'pg_type'::regclass THEN (SELECT typnamespace FROM pg_type WHERE oid = objid)
               WHEN 'pg_proc'::regclass THEN (SELECT pronamespace FROM pg_proc WHERE oid = objid)
               WHEN 'pg_constraint'::regclass THEN (SELECT connamespace FROM pg_constraint WHERE oid = objid)
               WHEN 'pg_rewrite'::regclass THEN
                   (SELECT relnamespace FROM pg_rewrite JOIN pg_class c ON c.oid = ev_class WHERE pg_rewrite.oid = objid)
               WHEN 'pg_attrdef'::regclass THEN
                   (SELECT relnamespace FROM pg_attrdef JOIN pg_class c ON c.oid = adrelid WHERE pg_attrdef.oid = objid)
               WHEN 'pg_trigger'::regclass THEN
                   (SELECT relnamespace FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid WHERE pg_trigger.oid = objid)
               WHEN 'pg_policy'::regclass THEN
                   (SELECT relnamespace FROM pg_policy JOIN pg_class c ON c.oid = polrelid WHERE pg_policy.oid = objid)
               WHEN 'pg_default_acl'::regclass THEN (SELECT defaclnamespace FROM pg_default_acl WHERE oid = objid)
               ELSE to_regnamespace((pg_identify_object(classid, objid, 0)).schema)
           END
      FROM dependents
)
SELECT pg_describe_object(classid, objid, 0) AS described
  FROM placed
 WHERE namespace IS NULL
    OR namespace NOT IN (to_regnamespace('{schema}'), 'pg_toast'::regnamespace)
       AND namespace NOT IN (SELECT oid FROM pg_namespace WHERE nspname LIKE 'pg\_temp%')
 ORDER BY 1 LIMIT 20
