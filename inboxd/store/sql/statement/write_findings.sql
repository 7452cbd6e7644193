-- Write what does not add up; what was found before and holds no more is removed, but for what happened once. What is found
-- again as it was stays accepted.
-- parameters: arrays: $1 date[] days, $2 text[] sources, $3 text[] what, $4 bigint[] rows, $5 text[] details; $6 text[] what
--             happens once
-- returns: nothing
-- locks: the rows
WITH gone AS (
    DELETE FROM {schema}.statement_findings o
     WHERE o.what <> ALL ($6::text[])
       AND NOT EXISTS (SELECT FROM unnest($1::date[], $2::text[], $3::text[]) AS n(day, source, what)
                        WHERE (n.day, n.source, n.what) = (o.day, o.source, o.what))
)
INSERT INTO {schema}.statement_findings AS old (day, source, what, rows, detail)
SELECT n.* FROM unnest($1::date[], $2::text[], $3::text[], $4::bigint[], $5::text[]) AS n(day, source, what, rows, detail)
 ORDER BY 1, 2, 3
ON CONFLICT (day, source, what) DO UPDATE
   SET rows = excluded.rows, detail = excluded.detail, found_at = clock_timestamp(), accepted_at = NULL, accepted_by = NULL
 WHERE old.rows <> excluded.rows OR old.detail <> excluded.detail
