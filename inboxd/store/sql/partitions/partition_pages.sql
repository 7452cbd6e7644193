-- The number of table pages of a partition.
-- parameters: $1 text part
-- returns: bigint; 0 if it is gone
-- locks: nothing
SELECT coalesce(pg_relation_size(to_regclass(format('{schema}.%I', $1::text))), 0)
       / current_setting('block_size')::bigint
