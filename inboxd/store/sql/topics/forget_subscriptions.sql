-- Remove subscriptions that no living worker has declared for a week; until then their topic gets its
-- events, for the worker that comes back.
-- parameters: none
-- returns: topic and type of each
-- locks: the rows
DELETE FROM {schema}.subscriptions WHERE undeclared_at < clock_timestamp() - interval '7 days'
RETURNING topic, type
