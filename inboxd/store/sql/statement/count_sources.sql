-- Count a stretch of settled events by the day on which they were written, their source, and their status.
-- parameters: $1 and $2 timestamptz the partition's bounds, $3 and $4 tid from (included) and to (not)
-- returns: day, source, status (erased: its contents were erased), rows
-- locks: nothing
SELECT (h.created_at AT TIME ZONE 'UTC')::date AS day, coalesce(h.source, '') AS source,
       CASE WHEN {schema}.is_erased(h.errors) THEN 'erased' ELSE h.status END AS status, count(*) AS rows
  FROM {schema}.events_history h
 WHERE h.finished_at >= $1 AND h.finished_at < $2 AND h.ctid >= $3 AND h.ctid < $4
 GROUP BY 1, 2, 3
