-- The roles that come with the schema and do not exist: the migrating role could not create them, or a dump omits them.
-- parameters: none
-- returns: name
-- locks: nothing
SELECT '{schema}_' || whose AS name
  FROM unnest(ARRAY['operator', 'producer', 'receiver', 'viewer', 'worker']) AS whose
 WHERE to_regrole('{schema}_' || whose) IS NULL
 ORDER BY name
