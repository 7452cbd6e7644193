-- What nobody has accepted yet, by what it is; and how long ago the newest day ended that has a statement.
-- parameters: none
-- returns: what (null: nothing is to be accepted), count, age (seconds; null: no day has one)
-- locks: nothing
SELECT f.what, coalesce(f.count, 0) AS count, newest.age
  FROM (SELECT extract(epoch FROM now() - ((max(d.day) + 1)::timestamp AT TIME ZONE 'UTC'))::double precision AS age
          FROM {schema}.statement_days d WHERE d.closed_at IS NOT NULL) newest
  LEFT JOIN (SELECT what, count(*) AS count FROM {schema}.statement_findings WHERE accepted_at IS NULL GROUP BY 1) f ON true
 ORDER BY 1
