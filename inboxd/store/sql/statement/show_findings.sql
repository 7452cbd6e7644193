-- The findings of a day; and those of other days that no operator has accepted.
-- parameters: $1 date day (null: of none), $2 text source (null: of any), $3 integer limit
-- returns: day, source, what, rows, detail, found_at, accepted_at, accepted_by
-- locks: nothing
SELECT day, source, what, rows, detail, found_at, accepted_at, accepted_by FROM {schema}.statement_findings
 WHERE (day IS NOT DISTINCT FROM $1::date OR accepted_at IS NULL) AND ($2::text IS NULL OR source IN ($2, ''))
 ORDER BY day IS NOT DISTINCT FROM $1::date DESC, day DESC, source, what LIMIT $3
