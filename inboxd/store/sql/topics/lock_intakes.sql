-- Lock announced intakes, in the transaction that makes their declaration.
-- parameters: arrays, one entry an intake: $1 text[] origins, $2 text[] types, $3 text[] topics
-- returns: a row for each that still exists
-- locks: the rows
SELECT i.origin FROM {schema}.intakes i
  JOIN unnest($1::text[], $2::text[], $3::text[]) AS given(origin, type, topic)
    ON i.origin = given.origin AND i.type = given.type AND i.topic = given.topic
 ORDER BY i.origin, i.type, i.topic FOR UPDATE OF i
