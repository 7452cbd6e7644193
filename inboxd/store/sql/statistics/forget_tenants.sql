-- Make room for other tenants: those that were not seen for a month are no longer counted by name. Their counts stay.
-- parameters: none
-- returns: nothing
-- locks: the rows
DELETE FROM {schema}.stats_tenants WHERE seen_at < now() - interval '30 days'
