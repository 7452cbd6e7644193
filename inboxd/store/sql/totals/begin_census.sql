-- Begin to count a partition, or say that what it has is to be counted again: what was counted of it is forgotten.
-- parameters: $1 text part, $2 text its parent
-- returns: begun_at, by which end_census knows whether this is the last one that began; written (rows that the server has
--          seen to come and go), bytes (its size; each 0: the partition is not there)
-- locks: the row of the partition, and what was counted of it
SELECT {schema}.begin_census($1, $2) AS begun_at,
       coalesce(pg_stat_get_tuples_inserted(p.oid) + pg_stat_get_tuples_deleted(p.oid), 0) AS written,
       coalesce(pg_relation_size(p.oid), 0) AS bytes
  FROM (SELECT to_regclass('{schema}.' || $1::text)::oid AS oid) p
