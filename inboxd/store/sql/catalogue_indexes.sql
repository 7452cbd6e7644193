-- The indexes of the tables, those of partitions left out.
-- parameters: none
-- returns: name, text, body (null)
-- locks: nothing
SELECT i.indexrelid::regclass::text AS name, '  ' || pg_get_indexdef(i.indexrelid) AS text, NULL AS body
  FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid
 WHERE t.relnamespace = '{schema}'::regnamespace AND NOT t.relispartition ORDER BY 1
