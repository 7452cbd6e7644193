-- The tenants that are counted by name.
-- parameters: none
-- returns: tenant
-- locks: nothing
SELECT tenant FROM {schema}.stats_tenants ORDER BY tenant
