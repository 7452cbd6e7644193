-- The newest batches or workflows by the time of their creation, their type and their status.
-- parameters: $1 text kind; $2 text type, $3 text tenant (each null: any); $4 timestamptz created since, $5 text unit of time
--             (minute, hour, day), $6 integer newest rows of both kinds to look at
-- returns: at (the beginning of the unit, in UTC), type, status, count, first_id, last_id; and one row without a status:
--          count, how many rows were looked at, and at, when the oldest of them was created
-- locks: nothing
WITH looked AS MATERIALIZED (
    SELECT id, kind, type, tenant, status, created_at FROM {schema}.batches ORDER BY id DESC LIMIT $6::integer
)
SELECT date_trunc($5::text, created_at, 'UTC') AS at, type, status, count(*) AS count, min(id) AS first_id, max(id) AS last_id
  FROM looked
 WHERE kind = $1::text AND created_at >= $4::timestamptz
   AND ($2::text IS NULL OR type = $2) AND ($3::text IS NULL OR tenant = $3)
 GROUP BY 1, 2, 3
UNION ALL
SELECT min(created_at), NULL, NULL, count(*), NULL, NULL FROM looked
