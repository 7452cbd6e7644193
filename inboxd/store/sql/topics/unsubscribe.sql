-- Delete subscriptions, for an operator, that no living worker declares any more.
-- parameters: $1 text topic, $2 text type (null: all of the topic)
-- returns: type of each that was removed
-- locks: the rows
DELETE FROM {schema}.subscriptions
 WHERE topic = $1 AND ($2::text IS NULL OR type = $2) AND undeclared_at IS NOT NULL
RETURNING type
