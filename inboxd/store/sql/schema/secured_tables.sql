-- Tables with row level security: without an error it hides rows from each role but the owner and those that are exempt.
-- A policy that lets this role do everything hides nothing from it, unless another one restricts that. Partitions are
-- left out: they are reached through their tables, whose security counts.
-- parameters: none
-- returns: name, exempt (this role is), hides (rows from this role)
-- locks: nothing
SELECT c.relname::text AS name, NOT active AS exempt,
       active AND (NOT EXISTS (SELECT FROM pg_policy p
                                WHERE p.polrelid = c.oid AND p.polpermissive AND p.polcmd = '*'
                                  AND pg_get_expr(p.polqual, p.polrelid) = 'true'
                                  AND coalesce(pg_get_expr(p.polwithcheck, p.polrelid), 'true') = 'true'
                                  AND EXISTS (SELECT FROM unnest(p.polroles) AS given(role)
                                               WHERE role = 0 OR pg_has_role(role, 'USAGE')))
                   OR EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND NOT p.polpermissive)) AS hides
  FROM pg_class c CROSS JOIN LATERAL (SELECT row_security_active(c.oid) AS active OFFSET 0) s
 WHERE c.relnamespace = to_regnamespace('{schema}') AND c.relrowsecurity AND NOT c.relispartition
 ORDER BY c.relname
