-- The topics that have lines which stand still behind a dead letter; lines are counted so far.
-- parameters: $1 integer count no further than this
-- returns: topic, lines, oldest (seconds that the first of them has stood still)
-- locks: nothing
WITH RECURSIVE blocked(topic) AS (
    (SELECT topic FROM {schema}.events WHERE head AND status = 'failed' ORDER BY topic LIMIT 1)
    UNION ALL
    SELECT following.topic
      FROM blocked
     CROSS JOIN LATERAL (
         SELECT e.topic FROM {schema}.events e
          WHERE e.head AND e.status = 'failed' AND e.topic > blocked.topic ORDER BY e.topic LIMIT 1) following
)
SELECT blocked.topic, few.lines, extract(epoch FROM clock_timestamp() - few.since)::double precision AS oldest
  FROM blocked
 CROSS JOIN LATERAL (
     SELECT count(*) AS lines, min(first.updated_at) AS since
       FROM (SELECT e.updated_at FROM {schema}.events e
              WHERE e.head AND e.status = 'failed' AND e.topic = blocked.topic
              ORDER BY e.updated_at LIMIT $1) first) few
 ORDER BY blocked.topic
