-- Look at the next numbers of what is counted apart, and take away those of which nothing is counted any more. Tenants have
-- the same counts once more, which go by the same ages: their tables have no index by number, and are not asked.
-- parameters: $1 integer the number to go on from, $2 integer numbers to look at
-- returns: last (the number to go on from, null: all were looked at), removed
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
