-- The roles that come with the schema and are not there: nobody had the right to create them, or a dump left them out.
-- parameters: none
-- returns: name
-- locks: nothing
SELECT '{schema}_' || whose AS name
  FROM unnest(ARRAY['operator', 'producer', 'receiver', 'viewer', 'worker']) AS whose
 WHERE to_regrole('{schema}_' || whose) IS NULL
 ORDER BY name
