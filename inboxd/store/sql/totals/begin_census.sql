-- Begin to count a partition, or only discard its count, so that it is counted again.
-- parameters: $1 text part, $2 text its parent
-- returns: begun_at, by which end_census knows whether this is the last count that began; written (rows that the server has
--          counted as inserted or deleted), bytes (its size; each 0: the partition does not exist)
-- locks: the row of the partition, and its counts
SELECT {schema}.begin_census($1, $2) AS begun_at,
       coalesce(pg_stat_get_tuples_inserted(p.oid) + pg_stat_get_tuples_deleted(p.oid), 0) AS written,
       coalesce(pg_relation_size(p.oid), 0) AS bytes
  FROM (SELECT to_regclass('{schema}.' || $1::text)::oid AS oid) p
