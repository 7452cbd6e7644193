-- Fold batches, one after the other: count what happened, judge, release what waited.
-- parameters: $1 bigint[] ids, $2 text how long to wait for a lock (null: as long as the session says)
-- returns: for each batch that is there: id, status, unsettled, more (fold it again), parent (fold it next)
-- locks: each batch FOR NO KEY UPDATE; what is released FOR NO KEY UPDATE
WITH patience AS MATERIALIZED (
    SELECT set_config('lock_timeout', coalesce($2::text, current_setting('lock_timeout')), true) AS set
)
SELECT t.id, f.status, f.unsettled, f.more, f.parent
  FROM patience
 CROSS JOIN unnest($1::bigint[]) WITH ORDINALITY AS t(id, n)
 CROSS JOIN LATERAL {schema}.fold_batch(CASE WHEN patience.set IS NOT NULL THEN t.id END) AS f
 WHERE f.status IS NOT NULL
