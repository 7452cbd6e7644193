-- Write the webhooks that handlers sent, with their lineage, in the handlers' transaction, in the same way as producers'.
-- parameters: arrays, one entry a webhook (null: none of them has it): $1 text[] types, $2 text[] payloads (JSON),
--             $3 text[] message ids, $4 text[] endpoints (null: all whose types match), $5 text[] ordering keys,
--             $6 text[] tenants, $7 text[] entity types, $8 text[] entity ids, $9 timestamptz[] occurred at,
--             $10 timestamptz[] run at, $11 text[] correlation ids, $12 uuid[] causation ids,
--             $13 text[] traceparents, $14 text[] origin kinds, $15 bigint[] origin ids, $16 boolean[] whether it is an
--             emitted event
-- returns: the number of deliveries
-- locks: as write_webhooks
SELECT count(*)
  FROM {schema}.write_webhooks(
       types => $1::text[], payloads => $2::text[]::jsonb[], message_ids => $3::text[], endpoints => $4::text[],
       ordering_keys => $5::text[], tenants => $6::text[], entity_types => $7::text[], entity_ids => $8::text[],
       occurred_ats => $9::timestamptz[], run_ats => $10::timestamptz[], correlation_ids => $11::text[],
       causation_ids => $12::uuid[], traceparents => $13::text[], origin_kinds => $14::text[],
       origin_ids => $15::bigint[], emitted => $16::boolean[])
