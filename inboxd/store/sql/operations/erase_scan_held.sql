-- A page of held receipts, and those of them with events that are about a subject.
-- parameters: null for any: $1 text tenant, $2 text entity_type, $3 text entity_id; $4 uuid receipt above which the page
--             begins, $5 integer receipts of the page
-- returns: last (the page's last receipt; null: the page is empty), receipts, events (the number of matches)
-- locks: nothing
SELECT max(page.receipt_id::text)::uuid AS last,
       coalesce(array_agg(page.receipt_id) FILTER (WHERE page.events > 0), '{}') AS receipts,
       coalesce(sum(page.events), 0)::bigint AS events
  FROM (SELECT h.receipt_id,
               (SELECT count(*) FROM jsonb_array_elements(h.events) AS e(event)
                 WHERE ($1::text IS NULL OR event ->> 'tenant' = $1)
                   AND ($2::text IS NULL OR event ->> 'entity_type' = $2)
                   AND ($3::text IS NULL OR event ->> 'entity_id' = $3)) AS events
          FROM {schema}.held_receipts h WHERE h.receipt_id > $4::uuid ORDER BY h.receipt_id LIMIT $5) AS page
