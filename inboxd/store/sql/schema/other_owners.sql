-- Who owns the schema, or a thing in it, where this role is neither it nor a member of it: those alone grant rights on it.
-- parameters: none
-- returns: name
-- locks: nothing
SELECT pg_get_userbyid(owner)::text AS name
  FROM (SELECT nspowner AS owner FROM pg_namespace WHERE nspname = '{schema}'
        UNION SELECT relowner FROM pg_class WHERE relnamespace = to_regnamespace('{schema}')
        UNION SELECT proowner FROM pg_proc WHERE pronamespace = to_regnamespace('{schema}')) AS owners
 WHERE NOT pg_has_role(owner, 'USAGE')
 ORDER BY name
