-- Which days have a statement: the ones before and after a day, and the newest.
-- parameters: $1 date day
-- returns: before, after, newest; null: there is none
-- locks: nothing
SELECT max(day) FILTER (WHERE day < $1) AS before, min(day) FILTER (WHERE day > $1) AS after, max(day) AS newest
  FROM {schema}.statement_days WHERE closed_at IS NOT NULL
