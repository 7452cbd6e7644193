-- What history, bodies and the record of keys weigh, by PostgreSQL's estimates: no file is looked at.
-- parameters: none
-- returns: name, partitions (0: it has none), rows, bytes (indexes included)
-- locks: nothing
WITH RECURSIVE part(root, oid) AS (
    SELECT c.oid, c.oid FROM pg_class c
     WHERE c.relnamespace = to_regnamespace('{schema}') AND NOT c.relispartition
       AND (c.relkind = 'p' OR c.relname IN ('dedup', 'duplicates', 'stats'))
    UNION ALL
    SELECT part.root, i.inhrelid FROM part JOIN pg_inherits i ON i.inhparent = part.oid
)
SELECT r.relname AS name, count(*) FILTER (WHERE c.oid <> r.oid) AS partitions,
       coalesce(sum(greatest(c.reltuples, 0)), 0)::bigint AS rows,
       (sum(c.relpages::bigint + weight.pages) * current_setting('block_size')::bigint)::bigint AS bytes
  FROM part
  JOIN pg_class r ON r.oid = part.root
  JOIN pg_class c ON c.oid = part.oid
 CROSS JOIN LATERAL (
     SELECT coalesce(sum(x.relpages), 0)::bigint AS pages
       FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid WHERE i.indrelid = c.oid) weight
 GROUP BY r.relname ORDER BY r.relname
