-- Indexes that PostgreSQL does not use, or does not keep up, those of partitions included.
-- parameters: none
-- returns: name, on_table, is_unique, is_built (somebody builds it now)
-- locks: nothing
SELECT i.indexrelid::regclass::text AS name, t.oid::regclass::text AS on_table, i.indisunique AS is_unique,
       EXISTS (SELECT FROM pg_stat_progress_create_index p WHERE p.index_relid = i.indexrelid) AS is_built
  FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid
 WHERE t.relnamespace = to_regnamespace('{schema}') AND NOT (i.indisvalid AND i.indisready AND i.indislive)
 ORDER BY 1 LIMIT 50
