-- The sizes of history, bodies and the record of keys, by PostgreSQL's estimates: no file is read.
-- parameters: none
-- returns: name, partitions (0: it has none), rows, bytes (indexes included)
-- locks: nothing
-- The catalogue is read once, instead of a lookup per partition.
WITH RECURSIVE part(root, oid) AS (
    SELECT c.oid, c.oid FROM pg_class c
     WHERE c.relnamespace = to_regnamespace('{schema}') AND NOT c.relispartition
       AND (c.relkind = 'p' OR c.relname IN ('dedup', 'duplicates', 'stats_minutes', 'stats_hours', 'stats_tenant_hours'))
    UNION ALL
    SELECT part.root, i.inhrelid FROM part JOIN pg_inherits i ON i.inhparent = part.oid
), relation AS MATERIALIZED (
    SELECT c.oid, c.relname, c.reltuples, c.relpages::bigint AS pages FROM pg_class c
     WHERE c.relnamespace = to_regnamespace('{schema}')
), weight AS MATERIALIZED (
    SELECT i.indrelid AS oid, sum(x.pages)::bigint AS pages
      FROM pg_index i JOIN relation x ON x.oid = i.indexrelid GROUP BY i.indrelid
)
SELECT r.relname AS name, count(*) FILTER (WHERE c.oid <> r.oid) AS partitions,
       -- Before the first ANALYZE, reltuples is unknown (-1), or counts the table when it was empty.
       coalesce(sum(greatest(c.reltuples, pg_stat_get_live_tuples(c.oid))), 0)::bigint AS rows,
       (sum(c.pages + coalesce(w.pages, 0)) * current_setting('block_size')::bigint)::bigint AS bytes
  FROM part
  JOIN relation r ON r.oid = part.root
  JOIN relation c ON c.oid = part.oid
  LEFT JOIN weight w ON w.oid = c.oid
 GROUP BY r.relname ORDER BY r.relname
