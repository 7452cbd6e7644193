-- The statuses of events, in all their topics: the number of rows with each status.
-- parameters: $1 uuid[] receipts, $2 uuid[] an event of each, $3 timestamptz[] before which it cannot have been settled
-- returns: receipt_id, status, count
-- locks: nothing
SELECT given.receipt_id, found.status, count(*) AS count
  FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[]) AS given(receipt_id, event_id, since)
 CROSS JOIN LATERAL (
     SELECT e.status FROM {schema}.events e WHERE e.event_id = given.event_id
     UNION ALL
     SELECT h.status FROM {schema}.events_history h WHERE h.event_id = given.event_id AND h.finished_at >= given.since) found
 GROUP BY given.receipt_id, found.status
