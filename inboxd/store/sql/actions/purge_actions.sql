-- Delete bulk actions that ended long ago; audit entries have their own age.
-- parameters: $1 interval age, $2 integer limit
-- returns: how many
-- locks: those rows
WITH gone AS (
    DELETE FROM {schema}.actions WHERE id = ANY (ARRAY(
        SELECT id FROM {schema}.actions WHERE ended_at < now() - $1::interval ORDER BY ended_at LIMIT $2))
    RETURNING id
)
SELECT count(*) FROM gone
