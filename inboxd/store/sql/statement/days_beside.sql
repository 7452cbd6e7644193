-- The days around a day that have a statement: the one before, the one after, and the newest.
-- parameters: $1 date day
-- returns: before, after, newest; null: no such day
-- locks: nothing
SELECT max(day) FILTER (WHERE day < $1) AS before, min(day) FILTER (WHERE day > $1) AS after, max(day) AS newest
  FROM {schema}.statement_days WHERE closed_at IS NOT NULL
