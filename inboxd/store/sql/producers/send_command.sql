-- Send one command, by the producers' function.
-- parameters: $1 text type, $2 text payload (JSON), $3 text queue, $4 uuid command_id, $5 integer schema
--             version, $6 integer priority, $7 text tenant, $8 text entity_type, $9 text entity_id,
--             $10 text correlation_id, $11 interval delay, $12 integer max_attempts, $13 text ordering_key,
--             $14 text unique_key, $15 text on_conflict, $16 interval until it expires; null where the function's default serves
-- returns: id, uuid, duplicate (nothing was written: there is such a command_id or unique key already)
-- locks: the new row
SELECT id, new_command_id AS uuid, duplicate
  FROM {schema}.send_command(type => $1, payload => $2::text::jsonb, queue => $3, command_id => $4,
                             schema_version => $5, priority => $6, tenant => $7, entity_type => $8,
                             entity_id => $9, correlation_id => $10, run_at => now() + $11::interval,
                             max_attempts => $12, ordering_key => $13, unique_key => $14,
                             on_conflict => $15, expires_at => now() + $16::interval)
