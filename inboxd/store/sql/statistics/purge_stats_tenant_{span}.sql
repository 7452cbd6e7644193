-- Delete old statistics of tenants, of {span}.
-- parameters: $1 interval age, $2 integer rows
-- returns: how many were deleted
-- locks: the rows
WITH gone AS (
    DELETE FROM {schema}.stats_tenant_{span}
     WHERE ctid = ANY (ARRAY(SELECT old.ctid FROM {schema}.stats_tenant_{span} old
                              WHERE old.at AT TIME ZONE 'UTC' < (now() - $1::interval) AT TIME ZONE 'UTC'
                              ORDER BY old.at AT TIME ZONE 'UTC' LIMIT $2))
    RETURNING 1)
SELECT count(*) FROM gone
