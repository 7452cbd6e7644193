-- The events among these that this transaction has written, a row for each topic; failed: a contradiction of a dedup key.
-- parameters: $1 uuid[] event ids
-- returns: uuid, lane (the topic), status, run_at
-- locks: nothing
SELECT event_id AS uuid, topic AS lane, status, run_at
  FROM {schema}.events WHERE event_id = ANY ($1::uuid[]) ORDER BY event_id, topic
