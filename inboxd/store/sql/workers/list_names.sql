-- All declared names, from which a suggestion is made for an unknown name.
-- parameters: none
-- returns: kind (event type, command type, topic, topic of settings, queue, schedule, breaker, endpoint, source: of
--          webhooks or of messages), name
-- locks: nothing
SELECT kind || ' type' AS kind, type AS name FROM {schema}.declared_types
UNION
SELECT 'event type', type FROM {schema}.subscriptions
UNION
SELECT CASE source WHEN 'settings' THEN 'topic of settings' ELSE 'topic' END, name FROM {schema}.topics
UNION
SELECT 'topic', topic FROM {schema}.subscriptions
UNION
SELECT CASE kind WHEN 'event' THEN 'topic' ELSE 'queue' END, lane FROM {schema}.schedules WHERE lane IS NOT NULL
UNION
SELECT 'queue', queue FROM {schema}.declared_types WHERE queue IS NOT NULL
UNION
SELECT 'schedule', name FROM {schema}.schedules
UNION
SELECT 'breaker', name FROM {schema}.breakers
UNION
SELECT 'endpoint', name FROM {schema}.endpoints
UNION
SELECT 'source', unnest(sources) FROM {schema}.receivers
UNION
SELECT 'source', source FROM {schema}.held_sources
UNION
SELECT 'source', source FROM {schema}.stream_positions
UNION
SELECT 'source', source FROM {schema}.message_readers
UNION ALL
VALUES ('topic', 'default'), ('queue', 'default')
