-- Write the events that handlers emitted, with their lineage, in the handlers' transaction, in the same way as producers'.
-- parameters: arrays, one entry an event (null: none of them has it): $1 uuid[] event ids, $2 text[] types,
--             $3 text[] payloads (JSON), $4 integer[] schema versions, $5 text[] topics (null: those that the
--             type is subscribed to), $6 text[] sources, $7 text[] tenants, $8 text[] entity types,
--             $9 text[] entity ids, $10 text[] headers (JSON), $11 text[] correlation ids,
--             $12 uuid[] causation ids, $13 text[] traceparents, $14 timestamptz[] occurred at,
--             $15 timestamptz[] run at (null, each: now, not the transaction's beginning: a handler's may
--             be minutes old), $16 text[] modes, $17 text[] ordering keys, $18 text[] dedup keys,
--             $19 text[] origin kinds, $20 bigint[] origin ids, $21 double precision[] delays in seconds, from now, of
--             those without a run at
-- returns: the number of given events
-- locks: the new rows and their dedup keys; for those of lines, the buckets' locks of producers, shared
SELECT count(*)
  FROM {schema}.write_events(
       event_ids => $1::uuid[], types => $2::text[], payloads => $3::text[]::jsonb[],
       schema_versions => $4::integer[], topics => $5::text[], sources => $6::text[], tenants => $7::text[],
       entity_types => $8::text[], entity_ids => $9::text[], headers => $10::text[]::jsonb[],
       correlation_ids => $11::text[], causation_ids => $12::uuid[], traceparents => $13::text[],
       occurred_ats => CASE WHEN $14::timestamptz[] IS NULL
                            THEN array_fill(statement_timestamp(), ARRAY[cardinality($1::uuid[])])
                            ELSE ARRAY(SELECT coalesce(u.given, statement_timestamp())
                                         FROM unnest($14::timestamptz[]) WITH ORDINALITY AS u(given, n) ORDER BY u.n) END,
       run_ats => CASE WHEN $15::timestamptz[] IS NULL AND $21::double precision[] IS NULL
                       THEN array_fill(statement_timestamp(), ARRAY[cardinality($1::uuid[])])
                       ELSE ARRAY(SELECT coalesce(u.given, statement_timestamp() + make_interval(secs => coalesce(u.delay, 0)))
                                    FROM unnest($15::timestamptz[], $21::double precision[])
                                         WITH ORDINALITY AS u(given, delay, n) ORDER BY u.n) END,
       modes => $16::text[],
       ordering_keys => $17::text[], dedup_keys => $18::text[], origin_kinds => $19::text[],
       origin_ids => $20::bigint[])
