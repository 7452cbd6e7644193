-- Replace the counts of a partition's rows that lack their counterpart.
-- parameters: $1 text part; arrays: $2 date[] days, $3 text[] sources, $4 text[] what, $5 bigint[] rows, $6 uuid[] examples
-- returns: nothing
-- locks: the rows
WITH gone AS (
    DELETE FROM {schema}.statement_strays o
     WHERE o.part = $1::text
       AND NOT EXISTS (SELECT FROM unnest($2::date[], $3::text[], $4::text[]) AS n(day, source, what)
                        WHERE (n.day, n.source, n.what) = (o.day, o.source, o.what))
)
INSERT INTO {schema}.statement_strays AS old (part, day, source, what, rows, example)
SELECT $1::text, n.day, n.source, n.what, n.rows, n.example
  FROM unnest($2::date[], $3::text[], $4::text[], $5::bigint[], $6::uuid[]) AS n(day, source, what, rows, example)
 ORDER BY 2, 3, 4
ON CONFLICT (part, day, source, what) DO UPDATE SET rows = excluded.rows, example = excluded.example
