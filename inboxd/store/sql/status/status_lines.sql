-- The events in the lines of each topic; each count stops at a limit. Loose index scans, of arrivals and of lined-up
-- events, find the topics.
-- parameters: $1 integer limit of each count
-- returns: topic, arrived (arrivals), oldest (seconds since the oldest of them was
--          written), lined_up (events that wait in their line), blocked (lines
--          whose head is a dead letter), blocked_for (seconds since the first of those died), kept (lines
--          whose head no worker handles), kept_for (seconds since the first of those was due), late (as oldest,
--          without paused events and those that need an open breaker; null: none), breaker (an open one that some
--          arrivals need), breaker_for (as oldest, of those). Known limit: only the first event of each bucket is judged;
--          later ones of other types, behind one that is paused or needs an open breaker, do not count as late
-- locks: nothing
WITH RECURSIVE arriving(topic, bucket, type, created_at) AS (  -- the first of each bucket, as in survey_arrivals
    (SELECT topic, bucket, type, created_at FROM {schema}.events
      WHERE status = 'waiting' AND position IS NULL ORDER BY topic, bucket, id LIMIT 1)
    UNION ALL
    SELECT following.*
      FROM arriving
     CROSS JOIN LATERAL (SELECT e.topic, e.bucket, e.type, e.created_at FROM {schema}.events e
                          WHERE e.status = 'waiting' AND e.position IS NULL
                            AND (e.topic, e.bucket) > (arriving.topic, arriving.bucket)
                          ORDER BY e.topic, e.bucket, e.id LIMIT 1) following
), heading(topic) AS (
    (SELECT topic FROM {schema}.events WHERE position IS NOT NULL ORDER BY topic LIMIT 1)
    UNION ALL
    SELECT following.topic
      FROM heading
     CROSS JOIN LATERAL (SELECT e.topic FROM {schema}.events e
                          WHERE e.position IS NOT NULL AND e.topic > heading.topic
                          ORDER BY e.topic LIMIT 1) following
), waiting(topic, type) AS (
    (SELECT topic, type FROM {schema}.events WHERE head::integer = 1 AND status LIKE 'waiting' ORDER BY topic, type LIMIT 1)
    UNION ALL
    SELECT following.topic, following.type
      FROM waiting
     CROSS JOIN LATERAL (SELECT e.topic, e.type FROM {schema}.events e
                          WHERE e.head::integer = 1 AND e.status LIKE 'waiting' AND (e.topic, e.type) > (waiting.topic, waiting.type)
                          ORDER BY e.topic, e.type LIMIT 1) following
), nobodys(topic, type) AS MATERIALIZED (
    SELECT topic, type FROM waiting WHERE {schema}.is_unhandled(topic, type)
), shut(name, uses) AS MATERIALIZED (
    SELECT b.name, b.uses FROM {schema}.breakers b WHERE b.mode = 'open' OR b.mode = 'auto' AND b.state <> 'closed'
), judged(topic, created_at, paused, breaker) AS MATERIALIZED (
    SELECT first.topic, first.created_at,
           EXISTS (SELECT FROM {schema}.controls p
                    WHERE p.kind = 'topic' AND p.name = first.topic OR p.kind = 'type' AND p.name = first.type),
           (SELECT min(shut.name) FROM shut WHERE shut.uses && ARRAY['event ' || first.type])
      FROM arriving first
)
SELECT found.topic, arrived.count AS arrived, oldest.seconds AS oldest, lined_up.count AS lined_up,
       blocked.count AS blocked, blocked.seconds AS blocked_for, kept.count AS kept, kept.seconds AS kept_for,
       oldest.late, oldest.breaker, oldest.breaker_for
  FROM (SELECT topic FROM arriving UNION SELECT topic FROM heading) AS found
 CROSS JOIN LATERAL (
     SELECT count(*) FROM (SELECT FROM {schema}.events a
                            WHERE a.status = 'waiting' AND a.position IS NULL AND a.topic = found.topic
                            LIMIT $1) AS few) arrived
 LEFT JOIN (
     SELECT first.topic, extract(epoch FROM clock_timestamp() - min(first.created_at))::double precision AS seconds,
            extract(epoch FROM clock_timestamp() - min(first.created_at) FILTER (
                WHERE NOT first.paused AND first.breaker IS NULL))::double precision AS late,
            min(first.breaker) AS breaker,
            extract(epoch FROM clock_timestamp() - min(first.created_at) FILTER (
                WHERE NOT first.paused AND first.breaker IS NOT NULL))::double precision AS breaker_for
       FROM judged first GROUP BY first.topic) oldest ON oldest.topic = found.topic
 CROSS JOIN LATERAL (
     SELECT count(*) FROM (SELECT FROM {schema}.events l
                            WHERE l.position IS NOT NULL AND l.topic = found.topic LIMIT $1) AS few) lined_up
 CROSS JOIN LATERAL (
     SELECT count(*), extract(epoch FROM clock_timestamp() - min(few.updated_at))::double precision AS seconds
       FROM (SELECT b.updated_at FROM {schema}.events b
              WHERE b.head::integer = 1 AND b.status LIKE 'failed' AND b.topic = found.topic
              ORDER BY b.updated_at, b.id LIMIT $1) AS few) blocked
 CROSS JOIN LATERAL (
     SELECT count(*), extract(epoch FROM clock_timestamp() - min(head.run_at))::double precision AS seconds
       FROM nobodys
      CROSS JOIN LATERAL (SELECT k.mode FROM {schema}.events k
                           WHERE k.head::integer = 1 AND k.status LIKE 'waiting' AND k.topic = nobodys.topic AND k.type = nobodys.type
                           ORDER BY k.run_at, k.id LIMIT 1) kind
      CROSS JOIN LATERAL (SELECT h.run_at FROM {schema}.events h
                           WHERE h.head::integer = 1 AND h.status LIKE 'waiting' AND h.topic = nobodys.topic AND h.type = nobodys.type
                             AND h.run_at <= now() AND kind.mode = 'sequential'
                           ORDER BY h.run_at, h.id LIMIT $1) head
      WHERE nobodys.topic = found.topic) kept
 ORDER BY found.topic
