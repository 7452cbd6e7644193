-- Record a dedup key, unless it is known.
-- parameters: $1 text topic, $2 text source, $3 text key, $4 uuid event_id, $5 text type, $6 integer schema
--             version, $7 text payload (JSON)
-- returns: first_event (uuid of the event that has the key already; null: this is the first), conflict
-- locks: the key, until the transaction ends
SELECT first_event, conflict
  FROM {schema}.remember($1, $2, $3, $4, {schema}.body_hash($5, $6, $7::text::jsonb))
