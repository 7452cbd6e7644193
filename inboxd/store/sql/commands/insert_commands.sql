-- Insert the commands that handlers sent, with their lineage, in the handlers' transaction.
-- parameters: arrays, one entry a command (NULL or an empty one: null throughout): $1 uuid[] command ids,
--             $2 text[] payloads (JSON), $3 timestamptz[] run_at, $4 double precision[] delays in seconds (both null:
--             now), $5 text[] origin kinds, $6 bigint[] origin ids, $7 text[] correlation ids, $8 uuid[] causation
--             ids, $9 text[] traceparents, $10 bigint[] batches, $11 integer[] unmet prerequisites (null: 0),
--             $12 boolean[] awaited (null: false), then one for each other column that a command's sender gives
--             (resolve_unique_keys.sql came before; a null queue is the declared one)
-- returns: nothing (the command tag counts the rows)
-- locks: the new rows
INSERT INTO {schema}.commands
       (command_id, payload, run_at, origin_kind, origin_id, correlation_id, causation_id, traceparent, batch_id,
        needs, awaited, status,
        {each stored command but command_id, payload, run_at, correlation_id, causation_id, traceparent: NAME})
SELECT command_id, payload::jsonb,
       coalesce(run_at, clock_timestamp() + make_interval(secs => coalesce(delay, 0))),
       origin_kind, origin_id, correlation_id, causation_id, traceparent, batch_id,
       coalesce(needs, 0), coalesce(awaited, false), CASE WHEN needs > 0 THEN 'waiting' ELSE 'pending' END,
       {each stored command but command_id, payload, run_at, correlation_id, causation_id, traceparent: NAME}
  FROM unnest($1::uuid[], $2::text[], $3::timestamptz[], $4::double precision[], $5::text[], $6::bigint[],
              $7::text[], $8::uuid[], $9::text[], $10::bigint[], $11::integer[], $12::boolean[],
              {each stored command but command_id, payload, run_at, correlation_id, causation_id,
                                       traceparent: $NUMBER+13::TYPE[]})
       AS t(command_id, payload, run_at, delay, origin_kind, origin_id, correlation_id, causation_id, traceparent,
            batch_id, needs, awaited,
            {each stored command but command_id, payload, run_at, correlation_id, causation_id, traceparent: NAME})
