-- The statuses of {table} that looks found, for counting.
-- parameters: $1 bigint[] ids of unsettled ones, $2 bigint[] ids of settled ones, $3 timestamptz[] their finished_at:
--             of each of these one partition is read; $4 and $5 timestamptz the earliest and the latest of these
-- returns: id, status, created_at, finished_at (null: unsettled), by id descending
-- locks: nothing
SELECT u.id, u.status, u.created_at, NULL::timestamptz AS finished_at
  FROM unnest($1::bigint[]) AS t(id)
  JOIN {schema}.{table} u ON u.id BETWEEN t.id AND t.id
UNION ALL
SELECT h.id, h.status, h.created_at, h.finished_at
  FROM unnest($2::bigint[], $3::timestamptz[]) AS t(id, finished_at)
 CROSS JOIN LATERAL (SELECT s.id, s.status, s.created_at, s.finished_at
                       FROM {schema}.{table}_history s
                      WHERE s.id BETWEEN t.id AND t.id AND s.finished_at = t.finished_at
                        AND s.finished_at BETWEEN $4::timestamptz AND $5::timestamptz OFFSET 0) h
 ORDER BY id DESC
