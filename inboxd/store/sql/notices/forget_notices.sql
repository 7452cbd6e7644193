-- Remove notices that ended long ago.
-- parameters: none
-- returns: nothing
-- locks: the rows
DELETE FROM {schema}.notices WHERE ended_at < clock_timestamp() - interval '30 days'
