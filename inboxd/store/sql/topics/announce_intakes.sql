-- Announce a declaration: workers do not process the lines of these topics until waiting events have been taken into
-- them: new topics with lines, and types without a subscription, or with an intake under way. A type with a subscription
-- of the topic `default` stays there. An earlier announcement keeps its time, so that its age shows a worker that dies
-- again and again before declaring.
-- parameters: $1 text[] topics and $2 text[] modes, as they are declared; $3 text[] topics and $4 text[] types,
--             one entry a subscription
-- returns: origin, type and topic of each announced intake
-- locks: the rows
INSERT INTO {schema}.intakes AS old (origin, type, topic)
SELECT origin, type, topic
  FROM (SELECT 'default' AS origin, s.type, s.topic
          FROM unnest($3::text[], $4::text[]) AS s(topic, type)
         WHERE NOT EXISTS (SELECT FROM unnest($3::text[], $4::text[]) AS own(topic, type)
                            WHERE own.type = s.type AND own.topic = 'default')
           AND NOT EXISTS (SELECT FROM {schema}.subscriptions k
                            WHERE k.type = s.type
                              AND (k.topic IN ('default', s.topic)
                                   OR NOT EXISTS (SELECT FROM {schema}.intakes i
                                                   WHERE i.origin = 'default' AND i.type = s.type
                                                     AND i.finished_at IS NULL)))
        UNION ALL
        SELECT t.name, '', t.name
          FROM unnest($1::text[], $2::text[]) AS t(name, mode)
         WHERE t.mode <> 'single' AND NOT EXISTS (SELECT FROM {schema}.topics k WHERE k.name = t.name)) AS new
 ORDER BY origin, type, topic
ON CONFLICT (origin, type, topic) DO UPDATE
   SET declared_at = CASE WHEN old.finished_at IS NULL THEN old.declared_at ELSE clock_timestamp() END,
       announced_at = clock_timestamp(), opened_at = NULL, finished_at = NULL, low = NULL, high = NULL,
       shift = NULL, reserved = NULL, late_shift = NULL, taken = 0
 WHERE old.finished_at IS NOT NULL OR old.opened_at IS NULL
RETURNING origin, type, topic
