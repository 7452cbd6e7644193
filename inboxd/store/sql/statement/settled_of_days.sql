-- The counts of days in history, including past ones; without these partitions.
-- parameters: $1 text[] partitions
-- returns: day, source, status, rows
-- locks: nothing
SELECT day, source, status, sum(rows)::bigint AS rows FROM {schema}.statement_settled
 WHERE part <> ALL ($1::text[]) GROUP BY 1, 2, 3
