-- The number of batches by status: what was added up, with the changes that were not, up to a bound.
-- parameters: $1 text kind (null: any), $2 text type (null: any), $3 text tenant (null: any), $4 integer changes to read
-- returns: status, rows, looked (how many changes were read; fewer than the bound: all)
-- locks: nothing
WITH added AS MATERIALIZED (
    SELECT t.status, t.rows FROM {schema}.batch_totals t
     WHERE t.kind = ANY (CASE WHEN $1::text IS NULL THEN ARRAY['batch', 'workflow'] ELSE ARRAY[$1] END)
       AND t.apart = CASE WHEN $2::text IS NULL THEN CASE WHEN $3::text IS NULL THEN 'nothing' ELSE 'tenant' END
                          WHEN $3 IS NULL THEN 'type' ELSE 'both' END
       AND t.type = coalesce($2, '') AND t.tenant = coalesce(left($3, 255), '')
), changed AS MATERIALIZED (
    SELECT c.status, count(*) AS looked,
           coalesce(sum(c.rows) FILTER (WHERE ($1 IS NULL OR c.kind = $1) AND ($2 IS NULL OR c.type = $2)
                                          AND ($3 IS NULL OR left(c.tenant, 255) IS NOT DISTINCT FROM left($3, 255))), 0) AS rows
      FROM (SELECT b.kind, b.type, b.tenant, b.status, b.rows FROM {schema}.batch_changes b ORDER BY b.id LIMIT $4::integer) c
     GROUP BY c.status
)
SELECT s.status,
       (coalesce((SELECT sum(a.rows) FROM added a WHERE a.status = s.status), 0)
        + coalesce((SELECT c.rows FROM changed c WHERE c.status = s.status), 0))::bigint AS rows,
       coalesce((SELECT sum(c.looked) FROM changed c), 0)::bigint AS looked
  FROM unnest(ARRAY['waiting', 'pending', 'running', 'succeeded', 'failed', 'cancelled']) WITH ORDINALITY AS s(status, n)
 ORDER BY s.n
