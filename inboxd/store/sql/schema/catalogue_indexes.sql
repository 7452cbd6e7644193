-- The indexes of the tables, without those of partitions.
-- parameters: none
-- returns: name, text, body (null)
-- locks: nothing
SELECT i.indexrelid::regclass::text AS name, '  ' || pg_get_indexdef(i.indexrelid) AS text, NULL AS body
  FROM pg_class t JOIN pg_index i ON i.indrelid BETWEEN t.oid AND t.oid
 WHERE t.relnamespace = '{schema}'::regnamespace AND NOT t.relispartition ORDER BY 1
