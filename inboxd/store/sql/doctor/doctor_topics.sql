-- The declared topics, and whether a living worker still declares each.
-- parameters: none
-- returns: name, mode, source, undeclared_at
-- locks: nothing
SELECT name, mode, source, undeclared_at FROM {schema}.topics ORDER BY name
