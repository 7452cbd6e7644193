-- End notices whose cause has been absent for a while; record for the others since when it is absent.
-- parameters: arrays, one entry a present cause: $1 text[] causes, $2 text[] kinds, $3 text[] subjects;
--             $4 interval for which a cause has to be absent
-- returns: id, cause, kind, subject, began_at, ended_at of each that ends
-- locks: the rows that change
WITH gone AS (
    UPDATE {schema}.notices n
       SET gone_at = coalesce(n.gone_at, clock_timestamp()),
           ended_at = CASE WHEN n.gone_at <= clock_timestamp() - $4::interval THEN clock_timestamp() END
     WHERE n.ended_at IS NULL
       AND (n.gone_at IS NULL OR n.gone_at <= clock_timestamp() - $4::interval)
       AND NOT EXISTS (SELECT FROM unnest($1::text[], $2::text[], $3::text[]) AS f(cause, kind, subject)
                        WHERE (f.cause, f.kind, f.subject) = (n.cause, n.kind, n.subject))
    RETURNING id, cause, kind, subject, began_at, ended_at
)
SELECT * FROM gone WHERE ended_at IS NOT NULL ORDER BY id
