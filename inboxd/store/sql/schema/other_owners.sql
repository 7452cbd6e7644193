-- The owners of the schema and its objects of which this role is not a member: only they can grant privileges on them.
-- parameters: none
-- returns: name
-- locks: nothing
SELECT pg_get_userbyid(owner)::text AS name
  FROM (SELECT nspowner AS owner FROM pg_namespace WHERE nspname = '{schema}'
        UNION SELECT relowner FROM pg_class WHERE relnamespace = to_regnamespace('{schema}')
        UNION SELECT proowner FROM pg_proc WHERE pronamespace = to_regnamespace('{schema}')) AS owners
 WHERE NOT pg_has_role(owner, 'USAGE')
 ORDER BY name
