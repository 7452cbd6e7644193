-- Write a page of receipts and their events: all, or none.
-- parameters: arrays, one entry a receipt: $1 uuid[] ids, $2 text[] sources, $3 bytea[] bodies, $4 text[] content types,
--             $5 text[] headers (JSON), $6 text[] addresses, $7 text[] key ids, $8 boolean[] whether its events wait;
--             one entry an event (null: none of them has it): $9 uuid[] its receipt, $10 text[] that one's source,
--             $11 uuid[] event ids, $12 text[] types, $13 text[] payloads (JSON), $14 text[] topics, $15 text[] ordering
--             keys, $16 text[] dedup keys, $17 text[] tenants, $18 text[] entity types, $19 text[] entity ids,
--             $20 text[] headers (JSON), $21 text[] traceparents, $22 text[] why it is broken
-- returns: receipt_id, event_ids, outcome; in the order given
-- locks: the new rows and their dedup keys; for those of lines, the buckets' locks of producers, shared; a held source, shared
SELECT receipt_id, event_ids, outcome
  FROM {schema}.receive(
       $1::uuid[], $2::text[], $3::bytea[], $4::text[], $5::text[]::jsonb[], $6::text[], $7::text[], $8::boolean[],
       $9::uuid[], $10::text[], $11::uuid[], $12::text[], $13::text[]::jsonb[], $14::text[], $15::text[], $16::text[],
       $17::text[], $18::text[], $19::text[], $20::text[]::jsonb[], $21::text[], $22::text[])
