-- Write the statements of closed days, and close some days.
-- parameters: $1 date[] days to close; arrays: $2 date[] days, $3 text[] sources, bigint[] $4 counted,
--             $5 received, $6 duplicates, $7 succeeded, $8 dead, $9 dismissed, $10 cancelled, $11 erased, $12 open
-- returns: nothing
-- locks: the rows
WITH closed AS (
    UPDATE {schema}.statement_days SET closed_at = clock_timestamp() WHERE day = ANY ($1::date[]) AND closed_at IS NULL
)
INSERT INTO {schema}.statement_lines AS old
       (day, source, counted, received, duplicates, succeeded, dead, dismissed, cancelled, erased, open)
SELECT n.* FROM unnest($2::date[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
                       $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[])
                AS n(day, source, counted, received, duplicates, succeeded, dead, dismissed, cancelled, erased, open)
 ORDER BY n.day, n.source
ON CONFLICT (day, source) DO UPDATE
   SET received = excluded.received, duplicates = excluded.duplicates, succeeded = excluded.succeeded,
       dead = excluded.dead, dismissed = excluded.dismissed, cancelled = excluded.cancelled, erased = excluded.erased,
       open = excluded.open
 WHERE (old.received, old.duplicates, old.succeeded, old.dead, old.dismissed, old.cancelled, old.erased, old.open)
       IS DISTINCT FROM (excluded.received, excluded.duplicates, excluded.succeeded, excluded.dead, excluded.dismissed,
                         excluded.cancelled, excluded.erased, excluded.open)
