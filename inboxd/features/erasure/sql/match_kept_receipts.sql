-- Does for receipts of dropped days what match_receipts.sql does.
-- parameters: $1 bytea text, $2 uuid the receipt after which the page begins (null: the oldest), $3 integer receipts of the
--             page
-- returns: receipt_id, broken, matches
-- locks: nothing
SELECT page.receipt_id, CASE WHEN page.outcome = 'broken' THEN page.event_ids ELSE '{}' END AS broken,
       coalesce(position($1::bytea IN page.body) > 0, false) AS matches
  FROM (SELECT r.receipt_id, r.outcome, r.event_ids, r.body
          FROM {schema}.kept_receipts r
         WHERE $2::uuid IS NULL OR r.receipt_id > $2
         ORDER BY r.receipt_id LIMIT $3) AS page
 ORDER BY page.receipt_id
