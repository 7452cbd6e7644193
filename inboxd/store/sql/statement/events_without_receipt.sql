-- Events of a stretch of history whose receipt is missing, though receipts of its time are kept.
-- parameters: $1 and $2 timestamptz the partition's bounds, $3 and $4 tid from (included) and to (not)
-- returns: day (on which they were written), source, rows, example (event_id of one)
-- locks: nothing
-- The oldest day of receipts is left out, since it may be removed meanwhile.
SELECT (h.created_at AT TIME ZONE 'UTC')::date AS day, coalesce(h.source, '') AS source, count(*) AS rows,
       min(h.event_id::text)::uuid AS example
  FROM {schema}.events_history h
 WHERE h.finished_at >= $1 AND h.finished_at < $2 AND h.ctid >= $3 AND h.ctid < $4
   AND h.origin_kind = 'receipt'
   AND {schema}.receipt_time(h.causation_id) >= (SELECT min(p.low) + interval '1 day' FROM {schema}.every_partition p
                                                  WHERE p.parent = 'receipts' AND NOT p.pending)
   AND NOT EXISTS (SELECT FROM {schema}.receipts r
                    WHERE r.received_at = {schema}.receipt_time(h.causation_id) AND r.receipt_id = h.causation_id OFFSET 0)
   AND NOT EXISTS (SELECT FROM {schema}.kept_receipts k WHERE k.receipt_id = h.causation_id OFFSET 0)
 GROUP BY 1, 2
