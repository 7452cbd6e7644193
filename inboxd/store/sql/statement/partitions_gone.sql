-- Partitions that were counted for the statement and are gone, though neither retention nor `inboxd history drop` removed
-- them.
-- parameters: none
-- returns: part, day (its first one with rows), rows
-- locks: briefly, as every reader
SELECT s.part, min(s.day) AS day, sum(s.rows)::bigint AS rows FROM {schema}.statement_settled s
 WHERE NOT EXISTS (SELECT FROM {schema}.retired r WHERE r.part = s.part OFFSET 0)
   AND s.part <> ALL (ARRAY(SELECT p.part FROM {schema}.every_partition p))
 GROUP BY s.part
