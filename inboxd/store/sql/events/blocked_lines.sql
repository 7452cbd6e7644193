-- Blocked lines of sequential topics, the longest blocked first: behind a dead letter, behind an event without a handler,
-- or behind a head that waits for its retry while others are lined up behind it.
-- parameters: $1 text topic (null: any), $2 integer lines, and how many of each topic (and type) are looked at
-- returns: topic, key, held_by (dead letter, retry, no handler), id, event_id, type, attempts, length (lined up
--          rows), age (seconds: since the dead letter became one, since the retried event was written, since the
--          unhandled event was due), next_at (null: it does not run again by itself), error
-- locks: nothing
WITH RECURSIVE dead(topic) AS (
    (SELECT e.topic FROM {schema}.events e
      WHERE e.head::integer = 1 AND e.status LIKE 'failed' AND e.topic >= coalesce($1, '') ORDER BY e.topic LIMIT 1)
    UNION ALL
    SELECT following.topic
      FROM dead
     CROSS JOIN LATERAL (
         SELECT e.topic FROM {schema}.events e
          WHERE e.head::integer = 1 AND e.status LIKE 'failed' AND e.topic > dead.topic ORDER BY e.topic LIMIT 1) following
     WHERE $1 IS NULL
), again(topic, type) AS (
    (SELECT e.topic, e.type FROM {schema}.events e
      WHERE e.head::integer = 1 AND e.status LIKE 'waiting' AND e.topic >= coalesce($1, '') ORDER BY e.topic, e.type LIMIT 1)
    UNION ALL
    SELECT following.topic, following.type
      FROM again
     CROSS JOIN LATERAL (
         SELECT e.topic, e.type FROM {schema}.events e
          WHERE e.head::integer = 1 AND e.status LIKE 'waiting' AND (e.topic, e.type) > (again.topic, again.type)
          ORDER BY e.topic, e.type LIMIT 1) following
     WHERE $1 IS NULL OR following.topic = $1
), held(held_by, id, since, position, topic, key) AS (
    SELECT 'dead letter', first.*
      FROM dead
     CROSS JOIN LATERAL (
         SELECT e.id, e.updated_at, e.position, e.topic, e.ordering_key FROM {schema}.events e
          WHERE e.head::integer = 1 AND e.status LIKE 'failed' AND e.topic = dead.topic
          ORDER BY e.updated_at, e.id LIMIT $2) first
     WHERE $1 IS NULL OR dead.topic = $1
    UNION ALL
    SELECT 'retry', first.*
      FROM again
     CROSS JOIN LATERAL (  -- a batch topic's lines wait too: they are not looked through
         SELECT e.mode FROM {schema}.events e
          WHERE e.head::integer = 1 AND e.status LIKE 'waiting' AND e.topic = again.topic AND e.type = again.type
          ORDER BY e.run_at, e.id LIMIT 1) kind
     CROSS JOIN LATERAL (
         SELECT e.id, e.created_at, e.position, e.topic, e.ordering_key FROM {schema}.events e
          WHERE e.head::integer = 1 AND e.status LIKE 'waiting' AND e.topic = again.topic AND e.type = again.type
            AND e.run_at > now() AND e.mode = 'sequential' AND kind.mode = 'sequential'
          ORDER BY e.run_at, e.id LIMIT $2) first
     WHERE $1 IS NULL OR again.topic = $1
    UNION ALL
    SELECT 'no handler', first.*
      FROM (SELECT again.topic, again.type FROM again
             WHERE ($1 IS NULL OR again.topic = $1) AND {schema}.is_unhandled(again.topic, again.type)) kept
     CROSS JOIN LATERAL (
         SELECT e.mode FROM {schema}.events e
          WHERE e.head::integer = 1 AND e.status LIKE 'waiting' AND e.topic = kept.topic AND e.type = kept.type
          ORDER BY e.run_at, e.id LIMIT 1) kind
     CROSS JOIN LATERAL (
         SELECT e.id, e.run_at, e.position, e.topic, e.ordering_key FROM {schema}.events e
          WHERE e.head::integer = 1 AND e.status LIKE 'waiting' AND e.topic = kept.topic AND e.type = kept.type
            AND e.run_at <= now() AND e.mode = 'sequential' AND kind.mode = 'sequential'
          ORDER BY e.run_at, e.id LIMIT $2) first
), shown AS MATERIALIZED (
    SELECT held.*, last.position - held.position + 1 AS length
      FROM held
     CROSS JOIN LATERAL (
         SELECT e.position FROM {schema}.events e
          WHERE e.position IS NOT NULL AND e.topic = held.topic AND e.ordering_key = held.key
          ORDER BY e.position DESC LIMIT 1) last
     WHERE held.held_by <> 'retry' OR last.position > held.position
     ORDER BY held.since, held.id LIMIT $2
)
SELECT shown.topic, shown.key, shown.held_by, e.id, e.event_id, e.type, e.attempts, shown.length,
       extract(epoch FROM clock_timestamp() - shown.since)::double precision AS age,
       CASE WHEN shown.held_by = 'retry' THEN e.run_at END AS next_at,
       CASE WHEN shown.held_by = 'no handler' THEN 'NoHandler: no live worker handles this type here'
            ELSE {content text: e.errors -> -1 ->> 'error'} END AS error
  FROM shown JOIN {schema}.events e ON e.id BETWEEN shown.id AND shown.id
 ORDER BY shown.since, e.id
