-- The number of batches or workflows that match the filter of a list, among the newest of both kinds.
-- parameters: each null for any: $1 text kind, $2 text[] statuses, $3 text tenant, $4 text name,
--             $5 timestamptz created since, $6 boolean open, $7 text type, $8 timestamptz created before; then $9 integer
--             newest rows to look at
-- returns: matched, looked (how many rows were looked at)
-- locks: nothing
WITH looked AS MATERIALIZED (
    SELECT kind, status, tenant, name, created_at, closed_at, type FROM {schema}.batches ORDER BY id DESC LIMIT $9::integer
)
SELECT count(*) FILTER (
           WHERE ($1::text IS NULL OR kind = $1)
             AND ($2::text[] IS NULL OR status = ANY ($2))
             AND ($3::text IS NULL OR tenant = $3)
             AND ($4::text IS NULL OR name = $4)
             AND ($5::timestamptz IS NULL OR created_at >= $5)
             AND ($6::boolean IS NULL OR (closed_at IS NULL) = $6)
             AND ($7::text IS NULL OR type = $7)
             AND ($8::timestamptz IS NULL OR created_at < $8)) AS matched,
       count(*) AS looked
  FROM looked
