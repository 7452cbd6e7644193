-- Count duplicates, by day and source.
-- parameters: arrays: $1 double precision[] seconds ago, $2 text[] sources
-- returns: nothing
-- locks: the rows
INSERT INTO {schema}.statement_duplicates AS old (day, source, rows)
SELECT ((statement_timestamp() - make_interval(secs => n.ago)) AT TIME ZONE 'UTC')::date, n.source, count(*)
  FROM unnest($1::double precision[], $2::text[]) AS n(ago, source)
 GROUP BY 1, 2 ORDER BY 1, 2
ON CONFLICT (day, source) DO UPDATE SET rows = old.rows + excluded.rows
