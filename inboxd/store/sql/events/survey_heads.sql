-- Every topic and type of waiting heads of lines, as survey_events.sql.
-- parameters: none
-- returns: topic, type, mode (as survey_arrivals.sql), oldest (seconds that its oldest due head has waited; null: none is due),
--          next (seconds until its next head is due; null: none)
-- locks: nothing
WITH RECURSIVE lane(topic, type) AS (
    (SELECT topic, type FROM {schema}.events WHERE head::integer = 1 AND status LIKE 'waiting' ORDER BY topic, type LIMIT 1)
    UNION ALL
    SELECT following.topic, following.type
      FROM lane
     CROSS JOIN LATERAL (
         SELECT e.topic, e.type FROM {schema}.events e
          WHERE e.head::integer = 1 AND e.status LIKE 'waiting' AND (e.topic, e.type) > (lane.topic, lane.type)
          ORDER BY e.topic, e.type LIMIT 1) following
)
SELECT lane.topic, lane.type,
       CASE WHEN lane.topic = ANY (ARRAY(SELECT t.name FROM {schema}.topics t WHERE t.relay)) THEN 'relay' ELSE seen.mode END
           AS mode,
       extract(epoch FROM clock_timestamp() - due.run_at)::double precision AS oldest,
       extract(epoch FROM later.run_at - clock_timestamp())::double precision AS next
  FROM lane
  LEFT JOIN LATERAL (
     SELECT e.run_at FROM {schema}.events e
      WHERE e.head::integer = 1 AND e.status LIKE 'waiting' AND e.topic = lane.topic AND e.type = lane.type
        AND e.run_at <= now() ORDER BY e.run_at, e.id LIMIT 1) due ON true
  LEFT JOIN LATERAL (
     SELECT e.run_at FROM {schema}.events e
      WHERE e.head::integer = 1 AND e.status LIKE 'waiting' AND e.topic = lane.topic AND e.type = lane.type
        AND e.run_at > now() ORDER BY e.run_at, e.id LIMIT 1) later ON true
  LEFT JOIN LATERAL (
     SELECT e.mode FROM {schema}.events e
      WHERE e.head::integer = 1 AND e.status LIKE 'waiting' AND e.topic = lane.topic AND e.type = lane.type
      ORDER BY e.run_at, e.id LIMIT 1) seen ON true
