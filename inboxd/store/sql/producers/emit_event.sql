-- Emit one event, by the producers' function.
-- parameters: $1 text type, $2 text payload (JSON), $3 text topic, $4 uuid event_id, $5 integer schema
--             version, $6 text source, $7 text tenant, $8 text entity_type, $9 text entity_id,
--             $10 text correlation_id, $11 interval delay, $12 text mode, $13 text ordering_key,
--             $14 text dedup_key; null where the function's default serves
-- returns: id, uuid, duplicate (it is known already; nothing was written), conflict (another event has its dedup
--          key; it is a dead letter)
-- locks: the new row
SELECT id, new_event_id AS uuid, duplicate, conflict
  FROM {schema}.emit_event(type => $1, payload => $2::text::jsonb, topic => $3, event_id => $4,
                           schema_version => $5, source => $6, tenant => $7, entity_type => $8,
                           entity_id => $9, correlation_id => $10, run_at => now() + $11::interval,
                           mode => $12, ordering_key => $13, dedup_key => $14)
