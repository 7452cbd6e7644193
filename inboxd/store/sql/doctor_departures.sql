-- The partitions that are on their way out, told by the catalogue: their bounds are not read.
-- parameters: none
-- returns: parent, part, state (pending: its detaching was interrupted; detached: retired, to be dropped)
-- locks: nothing
SELECT parent.relname AS parent, part.relname AS part, 'pending' AS state
  FROM pg_class parent
  JOIN pg_inherits i ON i.inhparent = parent.oid AND i.inhdetachpending
  JOIN pg_class part ON part.oid = i.inhrelid
 WHERE parent.relnamespace = to_regnamespace('{schema}') AND parent.relkind = 'p'
UNION ALL
SELECT r.parent, r.part, 'detached'
  FROM {schema}.retired r
  JOIN pg_class c ON c.oid = to_regclass(format('{schema}.%I', r.part)) AND NOT c.relispartition
 WHERE r.dropped_at IS NULL
 ORDER BY parent, part
