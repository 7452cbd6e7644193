-- Fold batches, one after the other: count ended members, decide the batch's end, release waiting rows.
-- A folder's commit does not wait for the WAL flush, so that it locks the batch's row only for a moment. If the server
-- crashes before the flush, the progress rows are back and are folded again; nothing that depends on the fold, such as a
-- claim of a released row, can have been flushed without it.
-- parameters: $1 bigint[] ids, $2 text lock_timeout of a folder (null: the caller is not a folder, and waits for locks
--             and for the flush as its session is set)
-- returns: for each existing batch: id, status, unsettled, more (fold it again), parent (fold it next)
-- locks: each batch FOR NO KEY UPDATE; released rows FOR NO KEY UPDATE
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
