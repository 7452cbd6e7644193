-- The number of blocked lines of each sequential topic, and since when: as blocked_lines.sql.
-- parameters: $1 integer lines of each topic (and type) that are looked at
-- returns: topic, held_by (dead letter, retry, no handler), lines, oldest (seconds)
-- locks: nothing
WITH RECURSIVE dead(topic) AS (
    (SELECT e.topic FROM {schema}.events e WHERE e.head::integer = 1 AND e.status LIKE 'failed' ORDER BY e.topic LIMIT 1)
    UNION ALL
    SELECT following.topic
      FROM dead
     CROSS JOIN LATERAL (
         SELECT e.topic FROM {schema}.events e
          WHERE e.head::integer = 1 AND e.status LIKE 'failed' AND e.topic > dead.topic ORDER BY e.topic LIMIT 1) following
), again(topic, type) AS (
    (SELECT e.topic, e.type FROM {schema}.events e
      WHERE e.head::integer = 1 AND e.status LIKE 'waiting' ORDER BY e.topic, e.type LIMIT 1)
    UNION ALL
    SELECT following.topic, following.type
      FROM again
     CROSS JOIN LATERAL (
         SELECT e.topic, e.type FROM {schema}.events e
          WHERE e.head::integer = 1 AND e.status LIKE 'waiting' AND (e.topic, e.type) > (again.topic, again.type)
          ORDER BY e.topic, e.type LIMIT 1) following
), kept(topic, type) AS (
    SELECT again.topic, again.type FROM again WHERE {schema}.is_unhandled(again.topic, again.type)
), held(topic, held_by, since) AS (
    SELECT dead.topic, 'dead letter', first.updated_at
      FROM dead
     CROSS JOIN LATERAL (
         SELECT e.updated_at FROM {schema}.events e
          WHERE e.head::integer = 1 AND e.status LIKE 'failed' AND e.topic = dead.topic
          ORDER BY e.updated_at, e.id LIMIT $1) first
    UNION ALL
    SELECT again.topic, 'retry', first.created_at
      FROM again
     CROSS JOIN LATERAL (  -- a batch topic's lines wait too: they are not looked through
         SELECT e.mode FROM {schema}.events e
          WHERE e.head::integer = 1 AND e.status LIKE 'waiting' AND e.topic = again.topic AND e.type = again.type
          ORDER BY e.run_at, e.id LIMIT 1) kind
     CROSS JOIN LATERAL (
         SELECT e.position, e.ordering_key, e.created_at FROM {schema}.events e
          WHERE e.head::integer = 1 AND e.status LIKE 'waiting' AND e.topic = again.topic AND e.type = again.type
            AND e.run_at > now() AND e.mode = 'sequential' AND kind.mode = 'sequential'
          ORDER BY e.run_at, e.id LIMIT $1) first
     WHERE EXISTS (SELECT FROM {schema}.events e
                    WHERE e.position IS NOT NULL AND e.topic = again.topic AND e.ordering_key = first.ordering_key
                      AND e.position > first.position OFFSET 0)
    UNION ALL
    SELECT kept.topic, 'no handler', first.run_at
      FROM kept
     CROSS JOIN LATERAL (
         SELECT e.mode FROM {schema}.events e
          WHERE e.head::integer = 1 AND e.status LIKE 'waiting' AND e.topic = kept.topic AND e.type = kept.type
          ORDER BY e.run_at, e.id LIMIT 1) kind
     CROSS JOIN LATERAL (
         SELECT e.run_at FROM {schema}.events e
          WHERE e.head::integer = 1 AND e.status LIKE 'waiting' AND e.topic = kept.topic AND e.type = kept.type
            AND e.run_at <= now() AND kind.mode = 'sequential'
          ORDER BY e.run_at, e.id LIMIT $1) first
)
SELECT topic, held_by, count(*) AS lines,
       extract(epoch FROM clock_timestamp() - min(since))::double precision AS oldest
  FROM held GROUP BY topic, held_by ORDER BY topic, held_by
