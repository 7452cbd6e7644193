-- Delete notices that ended 30 days ago.
-- parameters: none
-- returns: nothing
-- locks: the rows
DELETE FROM {schema}.notices WHERE ended_at < clock_timestamp() - interval '30 days'
