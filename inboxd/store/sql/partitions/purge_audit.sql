-- Delete old audit entries, except entries younger than 30 days and the entry of a bulk action that has not ended.
-- parameters: $1 interval age, $2 integer rows
-- returns: how many were removed
-- locks: the rows
SELECT {schema}.purge_audit($1::interval, $2)
