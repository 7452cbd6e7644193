-- Count a stretch of receipts, and the receipts whose events are all missing: neither unsettled nor in history.
-- parameters: $1 and $2 timestamptz the partition's bounds, $3 and $4 tid from (included) and to (not); $5 boolean whether
--             events are looked for
-- returns: source, rows, duplicates (of them), strays (of them, those without events), example (receipt_id of one)
-- locks: nothing
-- Held receipts have no events yet. An event is settled after its receipt came, by clocks that may differ.
SELECT r.source, count(*) AS rows, count(*) FILTER (WHERE r.outcome = 'duplicate') AS duplicates,
       count(*) FILTER (WHERE r.is_stray) AS strays,
       (min(r.receipt_id::text) FILTER (WHERE r.is_stray))::uuid AS example
  FROM (SELECT o.source, o.outcome, o.receipt_id,
               $5::boolean AND o.outcome IN ('stored', 'broken', 'contradiction') AND o.event_ids <> '{}'
               AND NOT EXISTS (SELECT FROM {schema}.events e WHERE e.causation_id = o.receipt_id OFFSET 0)
               AND NOT EXISTS (SELECT FROM {schema}.events_history h
                                WHERE h.causation_id = o.receipt_id AND h.finished_at >= $1::timestamptz - interval '1 day' OFFSET 0)
               AS is_stray
          FROM {schema}.receipts o
         WHERE o.received_at >= $1 AND o.received_at < $2 AND o.ctid >= $3 AND o.ctid < $4 OFFSET 0) AS r
 GROUP BY r.source
