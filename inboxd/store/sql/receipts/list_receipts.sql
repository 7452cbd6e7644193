-- A page of receipts, newest first, of one source or of all.
-- parameters: $1 text source (null: any), $2 uuid the receipt after which the page begins (null: the newest),
--             $3 integer receipts of the page
-- returns: receipt_id, received_at, source, outcome, event_ids, body_bytes, has_body, content_type, address, key_id,
--          held (whether its events wait)
-- locks: nothing
SELECT r.receipt_id, r.received_at, r.source, r.outcome, r.event_ids, r.body_bytes, {content boolean: r.body IS NOT NULL} AS has_body,
       r.content_type, r.address, r.key_id,
       r.outcome = 'held' AND EXISTS (
           SELECT FROM {schema}.held_receipts h WHERE h.receipt_id = r.receipt_id OFFSET 0) AS held
  FROM {schema}.receipts r
 WHERE ($1::text IS NULL OR r.source = $1)
   AND ($2::uuid IS NULL OR (r.received_at, r.receipt_id) < ({schema}.receipt_time($2), $2))
 ORDER BY r.received_at DESC, r.receipt_id DESC LIMIT $3
