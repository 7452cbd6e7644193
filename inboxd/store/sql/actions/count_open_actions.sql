-- The number of bulk actions that have not ended.
-- parameters: $1 text actor
-- returns: own (of this actor), whole (of all)
-- locks: nothing
SELECT count(*) FILTER (WHERE actor = $1) AS own, count(*) AS whole
  FROM {schema}.actions WHERE status IN ('scheduled', 'canary', 'running', 'paused')
