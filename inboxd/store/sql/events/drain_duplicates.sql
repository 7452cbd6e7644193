-- Delete and return notes of duplicates, oldest first.
-- parameters: $1 integer rows
-- returns: topic, source, key, type, event_id, first_event, conflict, ago (seconds since the sending)
-- locks: the rows; rows that another worker takes are skipped
DELETE FROM {schema}.duplicates
 WHERE id = ANY (ARRAY(SELECT id FROM {schema}.duplicates ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED))
RETURNING topic, source, key, type, event_id, first_event, conflict, extract(epoch FROM statement_timestamp() - at)::double precision AS ago
