-- Partitions that were counted for the statement, are not there any more, and that nobody let go: neither retention nor
-- `inboxd history drop`.
-- parameters: none
-- returns: part, day (the first one of which it had rows), rows
-- locks: briefly, as every reader
SELECT s.part, min(s.day) AS day, sum(s.rows)::bigint AS rows FROM {schema}.statement_settled s
 WHERE NOT EXISTS (SELECT FROM {schema}.retired r WHERE r.part = s.part OFFSET 0)
   AND s.part <> ALL (ARRAY(SELECT p.part FROM {schema}.every_partition p))
 GROUP BY s.part
