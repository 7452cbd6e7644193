-- The partitions of a history, oldest first, with their current size.
-- parameters: $1 text the history's name
-- returns: part, lower and upper (bounds of finished_at), pages
-- locks: briefly, as every reader
SELECT part, low AS lower, high AS upper, pg_relation_size(oid) / current_setting('block_size')::bigint AS pages
  FROM {schema}.partitions
 WHERE parent = $1::text AND low IS NOT NULL AND high IS NOT NULL ORDER BY low
