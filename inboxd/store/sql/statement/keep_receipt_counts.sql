-- Record how many receipts a day has, and the most that it ever had.
-- parameters: $1 date day; arrays: $2 text[] sources, $3 bigint[] receipts, $4 bigint[] duplicates among them
-- returns: nothing
-- locks: the rows
WITH none AS (
    UPDATE {schema}.statement_receipts SET found = 0, duplicates = 0
     WHERE day = $1::date AND source <> ALL ($2::text[])
)
INSERT INTO {schema}.statement_receipts AS old (day, source, most, found, duplicates)
SELECT $1::date, n.source, n.found, n.found, n.duplicates
  FROM unnest($2::text[], $3::bigint[], $4::bigint[]) AS n(source, found, duplicates) ORDER BY 2
ON CONFLICT (day, source) DO UPDATE
   SET most = greatest(old.most, excluded.found), found = excluded.found, duplicates = excluded.duplicates
