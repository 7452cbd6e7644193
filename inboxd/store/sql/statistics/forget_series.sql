-- Look at the next series, and delete those without counts. Statistics of tenants have the same series and the same ages:
-- their tables have no index by series, and are not read.
-- parameters: $1 integer the id to go on from, $2 integer series to look at
-- returns: last (the id to go on from, null: all were looked at), removed
-- locks: the rows that are removed
WITH looked AS MATERIALIZED (
    SELECT id FROM {schema}.stats_series WHERE id > $1 ORDER BY id LIMIT $2
), gone AS (
    DELETE FROM {schema}.stats_series s USING looked
     WHERE s.id BETWEEN looked.id AND looked.id
       AND NOT EXISTS (SELECT FROM {schema}.stats_minutes r WHERE r.series = looked.id OFFSET 0)
       AND NOT EXISTS (SELECT FROM {schema}.stats_hours r WHERE r.series = looked.id OFFSET 0)
       AND NOT EXISTS (SELECT FROM {schema}.stats_days r WHERE r.series = looked.id OFFSET 0)
    RETURNING 1
)
SELECT (SELECT max(id) FROM looked HAVING count(*) = $2) AS last, (SELECT count(*) FROM gone) AS removed
