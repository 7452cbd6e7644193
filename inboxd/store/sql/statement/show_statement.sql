-- The statement of a day.
-- parameters: $1 date day (null: the newest that has one), $2 text source (null: all)
-- returns: day, closed_at, checked_at, source (null: no line), received, duplicates, succeeded, dead, dismissed, cancelled,
--          erased, open, receipts, receipt_duplicates (null: none); no row: the day has none
-- locks: nothing
SELECT d.day, d.closed_at, k.checked_at, l.source, l.received, l.duplicates, l.succeeded, l.dead, l.dismissed,
       l.cancelled, l.erased, l.open, r.found AS receipts, r.duplicates AS receipt_duplicates
  FROM (SELECT day, closed_at FROM {schema}.statement_days
         WHERE closed_at IS NOT NULL AND ($1::date IS NULL OR day = $1) ORDER BY day DESC LIMIT 1) d
  LEFT JOIN {schema}.statement_checks k ON true
  LEFT JOIN {schema}.statement_lines l ON l.day = d.day AND ($2::text IS NULL OR l.source = $2)
  LEFT JOIN {schema}.statement_receipts r ON r.day = l.day AND r.source = l.source
 ORDER BY l.source
