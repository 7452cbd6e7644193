-- Withdraw an announcement whose declaration failed. Another announcement of the same finds it gone, and begins again.
-- parameters: arrays, one entry an intake: $1 text[] origins, $2 text[] types, $3 text[] topics
-- returns: nothing
-- locks: the rows
DELETE FROM {schema}.intakes i USING unnest($1::text[], $2::text[], $3::text[]) AS given(origin, type, topic)
 WHERE i.origin = given.origin AND i.type = given.type AND i.topic = given.topic AND i.opened_at IS NULL
