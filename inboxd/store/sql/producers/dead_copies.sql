-- The dead letters of one event, which has a row in each of its topics.
-- parameters: $1 uuid event_id
-- returns: id, topic
-- locks: nothing
SELECT id, topic FROM {schema}.events
 WHERE event_id BETWEEN $1::uuid AND $1::uuid AND status LIKE 'failed'
