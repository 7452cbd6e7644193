-- The tables of the schema, and what else holds rows there, with about how many each has, its partitions included.
-- parameters: none
-- returns: name, rows (as the statistics have it; 0 where they have nothing)
-- locks: nothing
SELECT t.relname AS name,
       (greatest(t.reltuples, 0) + coalesce((SELECT sum(greatest(part.reltuples, 0)) FROM pg_inherits
                                               JOIN pg_class part ON part.oid = inhrelid
                                              WHERE inhparent = t.oid), 0))::bigint AS rows
  FROM pg_class t
 WHERE t.relnamespace = to_regnamespace('{schema}') AND t.relkind IN ('r', 'p', 'm', 'f') AND NOT t.relispartition
 ORDER BY 1
