-- Accept the findings of a day.
-- parameters: $1 date day, $2 text source (null: of any), $3 text who
-- returns: how many
-- locks: the rows
WITH accepted AS (
    UPDATE {schema}.statement_findings SET accepted_at = clock_timestamp(), accepted_by = $3
     WHERE day = $1::date AND ($2::text IS NULL OR source = $2) AND accepted_at IS NULL
    RETURNING 1
)
SELECT count(*) FROM accepted
