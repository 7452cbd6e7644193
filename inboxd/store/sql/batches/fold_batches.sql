-- Fold batches, one after the other: count what happened, judge, release what waited.
-- A folder's commit waits for no flush, so that it holds the batch's row for a moment only. Should the server
-- crash before the flush, what was folded waits to be folded again: the lines are back, and nothing that
-- came of them can have been flushed without it, a claim of what was released least of all.
-- parameters: $1 bigint[] ids, $2 text how long a folder waits for a lock (null: whoever asks is no folder,
--             and waits, for locks and for the flush, as its session says)
-- returns: for each batch that is there: id, status, unsettled, more (fold it again), parent (fold it next)
-- locks: each batch FOR NO KEY UPDATE; what is released FOR NO KEY UPDATE
WITH folder AS MATERIALIZED (
    SELECT set_config('lock_timeout', coalesce($2::text, current_setting('lock_timeout')), true) AS patience,
           set_config('synchronous_commit',
                      CASE WHEN $2 IS NULL THEN current_setting('synchronous_commit') ELSE 'off' END, true) AS flush
)
SELECT t.id, f.status, f.unsettled, f.more, f.parent
  FROM folder
 CROSS JOIN unnest($1::bigint[]) WITH ORDINALITY AS t(id, n)
 CROSS JOIN LATERAL {schema}.fold_batch(
     CASE WHEN folder.patience IS NOT NULL AND folder.flush IS NOT NULL THEN t.id END) AS f
 WHERE f.status IS NOT NULL
