-- Add changes of batches to the totals of all, by type, by tenant, and by both. Changes that are deleted in the same
-- transaction are added exactly once. A change of a batch may be added before an earlier one: meanwhile a total of this
-- table alone may be negative; with the changes that are left it is true.
-- parameters: $1 bigint[] ids of changes
-- returns: nothing
-- locks: the totals
INSERT INTO {schema}.batch_totals AS old (kind, apart, type, tenant, status, rows)
SELECT c.kind, CASE GROUPING(c.type, c.tenant) WHEN 0 THEN 'both' WHEN 1 THEN 'type' WHEN 2 THEN 'tenant' ELSE 'nothing' END,
       coalesce(c.type, ''), coalesce(c.tenant, ''), c.status, sum(c.rows)
  FROM (SELECT b.kind, b.type, left(b.tenant, 255) AS tenant, b.status, b.rows
          FROM {schema}.batch_changes b WHERE b.id = ANY ($1::bigint[]) OFFSET 0) c
 GROUP BY c.kind, c.status, GROUPING SETS ((), (c.type), (c.tenant), (c.type, c.tenant))
HAVING sum(c.rows) <> 0 AND (GROUPING(c.tenant) = 1 OR c.tenant IS NOT NULL)
 ORDER BY 1, 2, 3, 4, 5
ON CONFLICT (kind, apart, type, tenant, status) DO UPDATE SET rows = old.rows + excluded.rows
