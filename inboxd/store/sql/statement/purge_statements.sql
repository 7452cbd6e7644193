-- Delete the oldest statement, with the counts from which it was made, if it is older than $1.
-- parameters: $1 interval age
-- returns: how many were deleted: 1, or 0
-- locks: the rows
WITH oldest AS MATERIALIZED (
    SELECT day FROM {schema}.statement_days
     WHERE day < ((now() - $1::interval) AT TIME ZONE 'UTC')::date ORDER BY day LIMIT 1
), gone AS (
    DELETE FROM {schema}.statement_days d USING oldest o WHERE d.day = o.day RETURNING 1
), settled AS (
    DELETE FROM {schema}.statement_settled d USING oldest o WHERE d.day <= o.day
), strays AS (
    DELETE FROM {schema}.statement_strays d USING oldest o WHERE d.day <= o.day
), trimmed AS (
    DELETE FROM {schema}.statement_trimmed d USING oldest o WHERE d.day <= o.day
), moves AS (
    DELETE FROM {schema}.statement_moves d USING oldest o WHERE d.day <= o.day
), duplicates AS (
    DELETE FROM {schema}.statement_duplicates d USING oldest o WHERE d.day <= o.day
), receipts AS (
    DELETE FROM {schema}.statement_receipts d USING oldest o WHERE d.day <= o.day
), findings AS (
    DELETE FROM {schema}.statement_findings d USING oldest o WHERE d.day <= o.day
)
SELECT count(*) FROM gone
