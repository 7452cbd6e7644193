-- Partitions whose concurrent detach was interrupted.
-- parameters: none
-- returns: parent, partition
-- locks: nothing
SELECT i.inhparent::regclass::text AS parent, i.inhrelid::regclass::text AS partition
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhparent
 WHERE c.relnamespace = to_regnamespace('{schema}') AND i.inhdetachpending ORDER BY 1, 2
