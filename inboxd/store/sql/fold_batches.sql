-- Fold batches, one after the other: count what happened, judge, release what waited.
-- parameters: $1 bigint[] ids
-- returns: for each batch that is there: id, status, unsettled, more (fold it again), parent (fold it next)
-- locks: each batch FOR NO KEY UPDATE; what is released FOR NO KEY UPDATE
SELECT t.id, f.status, f.unsettled, f.more, f.parent
  FROM unnest($1::bigint[]) WITH ORDINALITY AS t(id, n)
 CROSS JOIN LATERAL {schema}.fold_batch(t.id) AS f
 WHERE f.status IS NOT NULL
