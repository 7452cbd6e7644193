-- Count a stretch of a partition.
-- parameters: $1 and $2 timestamptz the partition's bounds, $3 and $4 tid from (included) and to (not)
-- returns: type, status, tenant, rows
-- locks: nothing
SELECT h.type, h.status, h.tenant, count(*) AS rows
  FROM {schema}.{table}_history h
 WHERE h.finished_at >= $1 AND h.finished_at < $2 AND h.ctid >= $3 AND h.ctid < $4
 GROUP BY h.type, h.status, h.tenant
