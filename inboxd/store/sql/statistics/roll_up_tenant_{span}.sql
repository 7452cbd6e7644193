-- Add the rows that workers wrote about tenants to their {span}: as roll_up_{span}.
-- The written rows are read first, whatever the statistics say: the other way round, each series would search them.
-- parameters: $1 bigint[] ids of rows that workers wrote
-- returns: nothing
-- locks: the {span}
INSERT INTO {schema}.stats_tenant_{span} AS old (tenant, at, series, {statistics})
SELECT w.tenant, date_trunc('{unit}', w.minute, 'UTC'), s.id, {statistics summed}
  FROM (SELECT * FROM {schema}.stats_written w WHERE w.id = ANY ($1::bigint[]) AND w.tenant IS NOT NULL OFFSET 0) AS w
 CROSS JOIN LATERAL (
     SELECT s.id FROM {schema}.stats_series s
      WHERE (s.type, s.kind, s.lane, s.outcome, s.after) = (w.type, w.kind, w.lane, w.outcome, w.after)
     OFFSET 0) AS s
 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
ON CONFLICT (tenant, at, series) DO UPDATE SET {statistics added}
