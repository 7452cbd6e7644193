-- Remove what was counted of a partition that is to be counted again.
-- parameters: $1 text part
-- returns: nothing
-- locks: the rows
WITH types AS (DELETE FROM {schema}.census_types WHERE part = $1::text)
DELETE FROM {schema}.census_tenants WHERE part = $1::text
