-- Insert the commands that handlers sent, with their lineage, in the handlers' transaction.
-- parameters: arrays, one entry a command (NULL or an empty one: null throughout): $1 uuid[] command ids,
--             $2 text[] queues (null: the declared one), $3 text[] types, $4 smallint[] schema versions,
--             $5 text[] payloads (JSON), $6 smallint[] priorities, $7 timestamptz[] run_at,
--             $8 double precision[] delays in seconds (both null: now), $9 timestamptz[] deadlines,
--             $10 smallint[] max attempts, $11 text[] tenants, $12 text[] entity types,
--             $13 text[] entity ids, $14 text[] origin kinds, $15 bigint[] origin ids,
--             $16 text[] correlation ids, $17 uuid[] causation ids, $18 text[] traceparents,
--             $19 text[] ordering keys, $20 bigint[] batches, $21 integer[] unmet prerequisites (null: 0),
--             $22 boolean[] awaited (null: false), $23 text[] unique keys (resolve_unique_keys.sql came before)
-- returns: nothing (the command tag counts the rows)
-- locks: the new rows
INSERT INTO {schema}.commands
       (command_id, queue, type, schema_version, payload, priority, run_at, deadline, max_attempts,
        tenant, entity_type, entity_id, origin_kind, origin_id, correlation_id, causation_id, traceparent,
        ordering_key, batch_id, needs, awaited, status, unique_key)
SELECT command_id, queue, type, schema_version, payload::jsonb, priority,
       coalesce(run_at, clock_timestamp() + make_interval(secs => coalesce(delay, 0))), deadline, max_attempts,
       tenant, entity_type, entity_id, origin_kind, origin_id, correlation_id, causation_id, traceparent,
       ordering_key, batch_id, coalesce(needs, 0), coalesce(awaited, false),
       CASE WHEN needs > 0 THEN 'waiting' ELSE 'pending' END, unique_key
  FROM unnest($1::uuid[], $2::text[], $3::text[], $4::smallint[], $5::text[], $6::smallint[],
              $7::timestamptz[], $8::double precision[], $9::timestamptz[], $10::smallint[],
              $11::text[], $12::text[], $13::text[], $14::text[], $15::bigint[], $16::text[],
              $17::uuid[], $18::text[], $19::text[], $20::bigint[], $21::integer[], $22::boolean[],
              $23::text[])
       AS t(command_id, queue, type, schema_version, payload, priority, run_at, delay, deadline,
            max_attempts, tenant, entity_type, entity_id, origin_kind, origin_id, correlation_id,
            causation_id, traceparent, ordering_key, batch_id, needs, awaited, unique_key)
