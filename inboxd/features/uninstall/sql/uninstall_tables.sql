-- The tables of the schema, and other objects with rows, with their estimated numbers of rows, including partitions.
-- parameters: none
-- returns: name, rows (by the server's statistics; 0 without any)
-- locks: nothing
SELECT t.relname AS name,
       (greatest(t.reltuples, 0) + coalesce((SELECT sum(greatest(part.reltuples, 0)) FROM pg_inherits
                                               JOIN pg_class part ON part.oid = inhrelid
                                              WHERE inhparent = t.oid), 0))::bigint AS rows
  FROM pg_class t
 WHERE t.relnamespace = to_regnamespace('{schema}') AND t.relkind IN ('r', 'p', 'm', 'f') AND NOT t.relispartition
 ORDER BY 1
