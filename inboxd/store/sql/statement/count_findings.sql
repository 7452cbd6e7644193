-- Findings that no operator has accepted yet, by name; and the time since the newest day with a statement ended.
-- parameters: none
-- returns: what (null: nothing was found), count, age (seconds; null: no day has a statement)
-- locks: nothing
SELECT f.what, coalesce(f.count, 0) AS count, newest.age
  FROM (SELECT extract(epoch FROM now() - ((max(d.day) + 1)::timestamp AT TIME ZONE 'UTC'))::double precision AS age
          FROM {schema}.statement_days d WHERE d.closed_at IS NOT NULL) newest
  LEFT JOIN (SELECT what, count(*) AS count FROM {schema}.statement_findings WHERE accepted_at IS NULL GROUP BY 1) f ON true
 ORDER BY 1
