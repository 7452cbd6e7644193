-- Write the findings; earlier findings that no longer hold are removed, except those of a moment. A finding that is
-- found again unchanged stays accepted.
-- parameters: arrays: $1 date[] days, $2 text[] sources, $3 text[] what, $4 bigint[] rows, $5 text[] details; $6 text[] the
--             names of findings of a moment
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
