-- Store a page of messages of one source: their events, and the positions of their streams. All, or nothing.
-- parameters: $1 text source; arrays, one entry a stream: $2 text[] streams, $3 bigint[] fences, $4 bigint[] positions
--             before (null: nothing is stored), $5 bigint[] positions (null: its broker has none), $6 text[] identities;
--             one entry an event (null: none of them has it): $7 uuid[] event ids, $8 text[] types, $9 text[] payloads
--             (JSON), $10 text[] topics, $11 text[] ordering keys, $12 text[] dedup keys, $13 text[] tenants, $14 text[]
--             entity types, $15 text[] entity ids, $16 text[] headers (JSON), $17 text[] traceparents, $18 text[]
--             correlation ids, $19 uuid[] causation ids, $20 timestamptz[] occurred at, $21 integer[] schema
--             versions (null: 1), $22 uuid[] ids in place of those that an unsettled event has, $23 text[] why it is broken
-- returns: one row: written, duplicates, contradictions, broken (events); raises IB001 if this reader has lost one
--          of the streams
-- locks: the streams' rows; the new rows and their dedup keys; for those of lines, the buckets' locks of producers, shared
SELECT written, duplicates, contradictions, broken
  FROM {schema}.store_messages(
       $1, $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::uuid[], $8::text[],
       $9::text[]::jsonb[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[],
       $16::text[]::jsonb[], $17::text[], $18::text[], $19::uuid[], $20::timestamptz[], $21::integer[], $22::uuid[], $23::text[])
