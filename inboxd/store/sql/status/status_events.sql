-- What events each topic and type has, counted no further than a limit: a lane of a million rows costs
-- what a lane of ten thousand costs. Lanes and failed types are found by loose index scans.
-- parameters: $1 integer limit of each count
-- returns: topic, type, pending, due, oldest (seconds that the oldest due row has waited), failed, kept
--          (nobody handles what is pending)
-- locks: nothing
WITH RECURSIVE lane(topic, type) AS (
    (SELECT topic, type FROM {schema}.events WHERE status = 'pending' ORDER BY topic, type LIMIT 1)
    UNION ALL
    SELECT following.topic, following.type
      FROM lane
     CROSS JOIN LATERAL (
         SELECT e.topic, e.type FROM {schema}.events e
          WHERE e.status = 'pending' AND (e.topic, e.type) > (lane.topic, lane.type)
          ORDER BY e.topic, e.type LIMIT 1) following
), broken(type) AS (
    (SELECT type FROM {schema}.events WHERE status = 'failed' ORDER BY type LIMIT 1)
    UNION ALL
    SELECT following.type
      FROM broken
     CROSS JOIN LATERAL (SELECT e.type FROM {schema}.events e
                          WHERE e.status = 'failed' AND e.type > broken.type
                          ORDER BY e.type LIMIT 1) following
), counted(topic, type, pending, due, oldest, failed) AS (
    SELECT lane.topic, lane.type, pending.count, due.count, due.oldest, 0
      FROM lane
     CROSS JOIN LATERAL (
         SELECT count(*) FROM (SELECT FROM {schema}.events e
                                WHERE e.status = 'pending' AND e.topic = lane.topic AND e.type = lane.type
                                LIMIT $1) AS few) pending
     CROSS JOIN LATERAL (
         SELECT count(*), extract(epoch FROM clock_timestamp() - min(run_at))::double precision AS oldest
           FROM (SELECT e.run_at FROM {schema}.events e
                  WHERE e.status = 'pending' AND e.topic = lane.topic AND e.type = lane.type
                    AND e.run_at <= now() ORDER BY e.run_at LIMIT $1) AS few) due
    UNION ALL
    SELECT dead.topic, dead.type, 0, 0, NULL, count(*)
      FROM broken
     CROSS JOIN LATERAL (SELECT e.topic, e.type FROM {schema}.events e
                          WHERE e.status = 'failed' AND e.type = broken.type LIMIT $1) dead
     GROUP BY dead.topic, dead.type
)
SELECT topic, type, sum(pending)::bigint AS pending, sum(due)::bigint AS due, max(oldest) AS oldest,
       sum(failed)::bigint AS failed, sum(pending) > 0 AND {schema}.is_unhandled(topic, type) AS kept
  FROM counted GROUP BY topic, type ORDER BY topic, type
