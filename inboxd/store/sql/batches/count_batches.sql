-- The number of batches (workflows) by status; each count stops at a limit.
-- parameters: $1 text kind (null: any), $2 text tenant (null: any), $3 integer limit, $4 text type (null: any)
-- returns: status, count
-- locks: nothing
SELECT s.status, c.count
  FROM unnest(ARRAY['waiting', 'pending', 'running', 'succeeded', 'failed', 'cancelled']) WITH ORDINALITY AS s(status, n)
 CROSS JOIN LATERAL (
     SELECT count(*) FROM (
         SELECT FROM {schema}.batches b
          WHERE b.status || '' = s.status AND ($1::text IS NULL OR b.kind = $1) AND ($2::text IS NULL OR b.tenant = $2)
            AND ($4::text IS NULL OR b.type = $4)
          LIMIT $3) AS counted) AS c
 ORDER BY s.n
