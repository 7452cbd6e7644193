-- Add the rows that workers wrote to the {resolution}, over all workers. Rows that are deleted in the same transaction are
-- added exactly once, however late they come.
-- The written rows are read first, whatever the statistics say: the other way round, each series would search them.
-- parameters: $1 bigint[] ids of rows that workers wrote
-- returns: nothing
-- locks: the {resolution}
INSERT INTO {schema}.stats_{resolution} AS old (at, series, {statistics})
SELECT date_trunc('{unit}', w.minute, 'UTC'), s.id, {statistics summed}
  FROM (SELECT * FROM {schema}.stats_written w WHERE w.id = ANY ($1::bigint[]) OFFSET 0) AS w
 CROSS JOIN LATERAL (
     SELECT s.id FROM {schema}.stats_series s
      WHERE (s.type, s.kind, s.lane, s.outcome, s.after) = (w.type, w.kind, w.lane, w.outcome, w.after)
     OFFSET 0) AS s
 GROUP BY 1, 2 ORDER BY 1, 2
ON CONFLICT (series, at) DO UPDATE SET {statistics added}
