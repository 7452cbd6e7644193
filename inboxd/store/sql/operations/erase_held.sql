-- Remove the events that are about a subject from held receipts.
-- parameters: null for any: $1 text tenant, $2 text entity_type, $3 text entity_id; $4 uuid[] receipts
-- returns: nothing
-- locks: the rows
UPDATE {schema}.held_receipts h
   SET events = (SELECT coalesce(jsonb_agg(event ORDER BY n), '[]')
                   FROM jsonb_array_elements(h.events) WITH ORDINALITY AS e(event, n)
                  WHERE NOT coalesce(($1::text IS NULL OR event ->> 'tenant' = $1)
                                     AND ($2::text IS NULL OR event ->> 'entity_type' = $2)
                                     AND ($3::text IS NULL OR event ->> 'entity_id' = $3), false))
 WHERE h.receipt_id = ANY ($4::uuid[])
