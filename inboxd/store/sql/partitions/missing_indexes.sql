-- The missing indexes of finished days of history, newest day first.
-- parameters: none
-- returns: part, what (type, tenant or entity)
-- locks: nothing
SELECT p.part, w.what
  FROM {schema}.partitions p
 CROSS JOIN unnest(ARRAY['type', 'tenant', 'entity']) AS w(what)
 WHERE p.parent <> 'bodies' AND NOT p.pending AND p.high <= now() - interval '1 hour'
   AND to_regclass(format('{schema}.%I', p.part || '_' || w.what)) IS NULL
 ORDER BY p.low DESC, p.part, w.what DESC
