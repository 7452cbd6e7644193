-- The rows without their counterpart, over all partitions.
-- parameters: none
-- returns: day, source, what, rows, example
-- locks: nothing
SELECT day, source, what, sum(rows)::bigint AS rows, min(example::text)::uuid AS example
  FROM {schema}.statement_strays GROUP BY 1, 2, 3
