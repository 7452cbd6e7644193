-- End open notices at once, whether their causes exist or not.
-- parameters: arrays, one entry a cause: $1 text[] causes, $2 text[] kinds, $3 text[] subjects
-- returns: id, cause, kind, subject, began_at, ended_at of each that ends
-- locks: the rows that change
WITH closed AS (
    UPDATE {schema}.notices n
       SET gone_at = coalesce(n.gone_at, clock_timestamp()), ended_at = clock_timestamp()
      FROM unnest($1::text[], $2::text[], $3::text[]) AS f(cause, kind, subject)
     WHERE n.ended_at IS NULL AND (n.cause, n.kind, n.subject) = (f.cause, f.kind, f.subject)
    RETURNING n.id, n.cause, n.kind, n.subject, n.began_at, n.ended_at
)
SELECT * FROM closed ORDER BY id
