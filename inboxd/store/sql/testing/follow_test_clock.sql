-- Statements that let functions and columns follow the clock of tests: functions with a search_path of their own; functions
-- that read the date by its keyword, which no search_path changes; and defaults of columns, since migrations run with the
-- server's functions alone in their path.
-- parameters: none
-- returns: statement (SQL)
-- locks: nothing
SELECT regexp_replace(pg_get_functiondef(p.oid), '\mcurrent_date\M', 'now()::date', 'gi') AS statement
  FROM pg_proc p WHERE p.pronamespace = '{schema}'::regnamespace AND p.prosrc ~* '\mcurrent_date\M'
UNION ALL
SELECT format('ALTER FUNCTION %s SET search_path = inboxd_clock, %s', p.oid::regprocedure,
              substr(setting, length('search_path=') + 1))
  FROM pg_proc p, unnest(p.proconfig) AS setting
 WHERE setting LIKE 'search_path=%' AND setting NOT LIKE '%inboxd_clock%'
   AND p.pronamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
UNION ALL
SELECT format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s', d.adrelid::regclass, a.attname,
              replace(x.expression, 'pg_catalog.', ''))
  FROM pg_attrdef d
  JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum AND a.attgenerated = ''
 CROSS JOIN LATERAL pg_get_expr(d.adbin, d.adrelid) AS x(expression)
 WHERE x.expression ~ 'pg_catalog\.(now|(clock|statement|transaction)_timestamp)\('
