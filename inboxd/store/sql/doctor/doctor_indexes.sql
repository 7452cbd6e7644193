-- Indexes that PostgreSQL does not use, or does not maintain, including those of partitions.
-- parameters: none
-- returns: name, on_table, is_unique, is_built (a session is building it now)
-- locks: nothing
WITH unused AS MATERIALIZED (  -- by far the fewest: looked for first, since each day of history brings a dozen
    SELECT indexrelid, indrelid, indisunique FROM pg_index WHERE NOT (indisvalid AND indisready AND indislive)
)
SELECT i.indexrelid::regclass::text AS name, t.oid::regclass::text AS on_table, i.indisunique AS is_unique,
       EXISTS (SELECT FROM pg_stat_progress_create_index p WHERE p.index_relid = i.indexrelid) AS is_built
  FROM unused i JOIN pg_class t ON t.oid = i.indrelid
 WHERE t.relnamespace = to_regnamespace('{schema}')
 ORDER BY 1 LIMIT 50
