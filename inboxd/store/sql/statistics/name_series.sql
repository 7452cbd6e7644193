-- Add the series that are counted for the first time.
-- parameters: $1 bigint[] ids of rows that workers wrote
-- returns: nothing
-- locks: the rows that are new, until the transaction ends: another leader with the same ones waits
INSERT INTO {schema}.stats_series (kind, lane, type, outcome, after)
SELECT DISTINCT w.kind, w.lane, w.type, w.outcome, w.after
  FROM {schema}.stats_written w
 WHERE w.id = ANY ($1::bigint[])
   AND NOT EXISTS (SELECT FROM {schema}.stats_series s
                    WHERE (s.type, s.kind, s.lane, s.outcome, s.after) = (w.type, w.kind, w.lane, w.outcome, w.after) OFFSET 0)
 ORDER BY 1, 2, 3, 4, 5
ON CONFLICT DO NOTHING
