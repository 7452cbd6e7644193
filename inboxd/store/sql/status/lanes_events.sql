-- The unsettled events outside of lines, lane by lane; each count stops at a limit: as lanes_commands.sql.
-- parameters: $1 integer limit of each count, $2 integer limit of the dead letters of each type: each of them is read, for
--             its topic
-- returns: topic, type, state (pending; kept: pending, and no living worker
--          handles it; failed), rows, due, oldest (seconds that the oldest due row has waited; null: none is due),
--          paused (the due rows are), breaker (an open one that they need; null: none)
-- locks: nothing
WITH RECURSIVE lane(topic, type, run_at, id) AS (
    (SELECT topic, type, run_at, id FROM {schema}.events
      WHERE status = 'pending' ORDER BY topic, type, run_at, id LIMIT 1)
    UNION ALL
    SELECT following.*
      FROM lane
     CROSS JOIN LATERAL (
         SELECT e.topic, e.type, e.run_at, e.id FROM {schema}.events e
          WHERE e.status = 'pending' AND (e.topic, e.type) > (lane.topic, lane.type)
          ORDER BY e.topic, e.type, e.run_at, e.id LIMIT 1) following
), failed(type) AS (
    (SELECT type FROM {schema}.events WHERE status = 'failed' ORDER BY type LIMIT 1)
    UNION ALL
    SELECT following.type
      FROM failed
     CROSS JOIN LATERAL (
         SELECT e.type FROM {schema}.events e
          WHERE e.status = 'failed' AND e.type > failed.type ORDER BY e.type LIMIT 1) following
), shut(name, uses) AS MATERIALIZED (
    SELECT b.name, b.uses FROM {schema}.breakers b WHERE b.mode = 'open' OR b.mode = 'auto' AND b.state <> 'closed'
), found(topic, type, state, rows, due, run_at) AS (
    SELECT lane.topic, lane.type,
           CASE WHEN {schema}.is_unhandled(lane.topic, lane.type) THEN 'kept' ELSE 'pending' END, counted.*, lane.run_at
      FROM lane
     CROSS JOIN LATERAL (
         SELECT count(*), count(*) FILTER (WHERE few.run_at <= now())
           FROM (SELECT e.run_at FROM {schema}.events e
                  WHERE e.status = 'pending' AND e.topic = lane.topic AND e.type = lane.type
                    AND (e.run_at, e.id) >= (lane.run_at, lane.id)
                  ORDER BY e.run_at, e.id LIMIT $1) AS few) counted
    UNION ALL
    SELECT few.topic, failed.type, 'failed', count(*), 0, NULL
      FROM failed
     CROSS JOIN LATERAL (
         SELECT e.topic FROM {schema}.events e
          WHERE e.status = 'failed' AND e.type = failed.type LIMIT $2) few
     GROUP BY few.topic, failed.type
)
SELECT topic, type, state, rows, due,
       CASE WHEN run_at <= now() THEN extract(epoch FROM clock_timestamp() - run_at)::double precision END AS oldest,
       run_at <= now()
       AND EXISTS (SELECT FROM {schema}.controls p
                    WHERE p.kind = 'topic' AND p.name = topic OR p.kind = 'type' AND p.name = type) AS paused,
       (SELECT min(shut.name) FROM shut WHERE shut.uses && ARRAY['event ' || type]) AS breaker
  FROM found ORDER BY topic, type
