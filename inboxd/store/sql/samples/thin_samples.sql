-- Look at old samples, and delete those that are not the first of their minute.
-- parameters: $1 interval age, $2 timestamptz of the sample after which to look, $3 integer rows
-- returns: one row: removed (how many were), last (the time of the last one; null: none was looked at)
-- locks: the rows that are removed
WITH looked AS MATERIALIZED (
    SELECT old.ctid AS place, old.at, old.of_minute FROM {schema}.samples old
     WHERE old.at > $2::timestamptz AND old.at < now() - $1::interval ORDER BY old.at LIMIT $3
), gone AS (
    DELETE FROM {schema}.samples WHERE ctid = ANY (ARRAY(SELECT looked.place FROM looked WHERE NOT looked.of_minute))
    RETURNING 1)
SELECT (SELECT count(*) FROM gone) AS removed, (SELECT max(looked.at) FROM looked) AS last
