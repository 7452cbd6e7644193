-- The statuses of a bulk action's first rows.
-- parameters: $1 bigint[] ids
-- returns: id, status (null: it is gone)
-- locks: nothing
SELECT given.id, coalesce(hot.status, settled.status) AS status
  FROM unnest($1::bigint[]) AS given(id)
  LEFT JOIN LATERAL (SELECT h.status FROM {schema}.{table} h WHERE h.id = given.id LIMIT 1) hot ON true
  LEFT JOIN LATERAL (
       SELECT s.status FROM {schema}.{table}_history s WHERE s.id = given.id AND hot.status IS NULL LIMIT 1) settled ON true
