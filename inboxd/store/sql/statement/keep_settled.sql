-- Replace the counts of a partition of history, by day.
-- parameters: $1 text part; arrays: $2 date[] days, $3 text[] sources, $4 text[] statuses, $5 bigint[] rows
-- returns: nothing
-- locks: the rows
WITH gone AS (
    DELETE FROM {schema}.statement_settled o
     WHERE o.part = $1::text
       AND NOT EXISTS (SELECT FROM unnest($2::date[], $3::text[], $4::text[]) AS n(day, source, status)
                        WHERE (n.day, n.source, n.status) = (o.day, o.source, o.status))
)
INSERT INTO {schema}.statement_settled AS old (day, source, part, status, rows)
SELECT n.day, n.source, $1::text, n.status, n.rows
  FROM unnest($2::date[], $3::text[], $4::text[], $5::bigint[]) AS n(day, source, status, rows) ORDER BY 1, 2, 4
ON CONFLICT (day, source, part, status) DO UPDATE SET rows = excluded.rows
