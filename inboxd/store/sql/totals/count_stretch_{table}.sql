-- Count a stretch of a partition.
-- parameters: $1 and $2 timestamptz the partition's bounds, $3 and $4 tid from (included) and to (not)
-- returns: type, status, tenant, rows, low_id (the lowest of these rows)
-- locks: nothing
SELECT h.type, h.status, h.tenant, count(*) AS rows, min(h.id) AS low_id
  FROM {schema}.{table}_history h
 WHERE h.finished_at >= $1 AND h.finished_at < $2 AND h.ctid >= $3 AND h.ctid < $4
 GROUP BY h.type, h.status, h.tenant
