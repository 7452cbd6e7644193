-- Emit the daemon's own events: runs of a schedule, in the transaction that moves its next time; and notices.
-- parameters: $1 text topic (null: those that the type is subscribed to, or default), $2 text type,
--             $3 smallint schema version, $4 text source, $5 text tenant; arrays, one entry a run:
--             $6 text[] payloads (JSON), $7 text[] correlation ids, $8 timestamptz[] times
-- returns: nothing
-- locks: the new rows
INSERT INTO {schema}.events
       (topic, type, schema_version, source, tenant, payload, correlation_id, occurred_at)
SELECT $1, $2, $3, $4, $5, payload::jsonb, correlation_id, occurred_at
  FROM unnest($6::text[], $7::text[], $8::timestamptz[]) AS run(payload, correlation_id, occurred_at)
 ORDER BY occurred_at
