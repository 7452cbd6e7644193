-- The number of events to take; counting stops at a limit.
-- parameters: $1 text origin, $2 text type ('': any), $3 integer limit
-- returns: type and count of each type
-- locks: nothing
SELECT few.type, count(*) AS count
  FROM ((SELECT e.type FROM {schema}.events e
          WHERE $2 <> '' AND e.status = 'pending' AND e.topic = $1 AND e.type = $2 AND e.mode = 'single'
          ORDER BY e.topic, e.type, e.run_at, e.id LIMIT $3)
        UNION ALL
        (SELECT e.type FROM {schema}.events e
          WHERE $2 = '' AND e.status = 'pending' AND e.topic = $1 AND e.mode = 'single'
          ORDER BY e.topic, e.type, e.run_at, e.id LIMIT $3)) AS few
 GROUP BY few.type ORDER BY few.type
