-- Delete old audit entries; never entries that are younger than 30 days, nor that of a
-- bulk action that has not ended.
-- parameters: $1 interval age, $2 integer rows
-- returns: how many were removed
-- locks: the rows
SELECT {schema}.purge_audit($1::interval, $2)
