-- Make room for other tenants: those that were not seen for a month are counted by name no more. What was counted stays.
-- parameters: none
-- returns: nothing
-- locks: the rows
DELETE FROM {schema}.stats_tenants WHERE seen_at < now() - interval '30 days'
