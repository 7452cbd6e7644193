-- What lets functions with a search_path of their own go by the clock of tests, too; and those of ours that ask for
-- the date by the keyword, which no search_path changes.
-- parameters: none
-- returns: statement (SQL), for each such function
-- locks: nothing
SELECT regexp_replace(pg_get_functiondef(p.oid), '\mcurrent_date\M', 'now()::date', 'gi') AS statement
  FROM pg_proc p WHERE p.pronamespace = '{schema}'::regnamespace AND p.prosrc ~* '\mcurrent_date\M'
UNION ALL
SELECT format('ALTER FUNCTION %s SET search_path = inboxd_clock, %s', p.oid::regprocedure,
              substr(setting, length('search_path=') + 1))
  FROM pg_proc p, unnest(p.proconfig) AS setting
 WHERE setting LIKE 'search_path=%' AND setting NOT LIKE '%inboxd_clock%'
   AND p.pronamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
