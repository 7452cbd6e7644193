-- Delete old hours of lanes.
-- parameters: $1 interval age, $2 integer rows
-- returns: how many were deleted
-- locks: the rows
WITH gone AS (
    DELETE FROM {schema}.sampled_lanes
     WHERE ctid = ANY (ARRAY(SELECT old.ctid FROM {schema}.sampled_lanes old
                              WHERE old.hour < now() - $1::interval - interval '1 hour' ORDER BY old.hour LIMIT $2))
    RETURNING 1)
SELECT count(*) FROM gone
