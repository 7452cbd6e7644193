-- Emit one event, by the function that producers use.
-- parameters: $1 text type, $2 text payload (JSON), $3 text topic, $4 uuid event_id, $5 integer schema
--             version, $6 text source, $7 text tenant, $8 text entity_type, $9 text entity_id,
--             $10 text correlation_id, $11 interval delay; null where the function's default serves
-- returns: id, uuid, duplicate (there is such an event_id already; nothing was written)
-- locks: the new row
SELECT id, new_event_id AS uuid, duplicate
  FROM {schema}.emit_event(type => $1, payload => $2::text::jsonb, topic => $3, event_id => $4,
                           schema_version => $5, source => $6, tenant => $7, entity_type => $8,
                           entity_id => $9, correlation_id => $10, run_at => now() + $11::interval)
