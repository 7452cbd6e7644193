-- A page of receipts, oldest first, and whether the body of each contains a text.
-- parameters: $1 bytea text, $2 uuid the receipt after which the page begins (null: the oldest), $3 integer receipts of the
--             page
-- returns: receipt_id, broken (ids of events that are dead letters with the raw body), matches
-- locks: nothing
SELECT page.receipt_id, CASE WHEN page.outcome = 'broken' THEN page.event_ids ELSE '{}' END AS broken,
       coalesce(position($1::bytea IN page.body) > 0, false) AS matches
  FROM (SELECT r.received_at, r.receipt_id, r.outcome, r.event_ids, r.body
          FROM {schema}.receipts r
         WHERE $2::uuid IS NULL OR (r.received_at, r.receipt_id) > ({schema}.receipt_time($2), $2)
         ORDER BY r.received_at, r.receipt_id LIMIT $3) AS page
 ORDER BY page.received_at, page.receipt_id
