-- The topics and types among these that no living worker handles.
-- parameters: arrays, one entry each: $1 text[] topics, $2 text[] types
-- returns: topic, type of each unhandled one; visited: a worker that serves the topic has handlers of
--          its own there, or handlers without a topic (declared for the default one), and so lines up arrivals
-- locks: nothing
SELECT given.topic, given.type,
       EXISTS (SELECT FROM {schema}.workers w, unnest(w.subscriptions) AS each
                WHERE w.state IN ('running', 'draining')
                  AND (starts_with(each, given.topic || E'\n') OR starts_with(each, E'default\n'))
                  AND (cardinality(w.served_topics) = 0 OR given.topic = ANY (w.served_topics))) AS visited
  FROM unnest($1::text[], $2::text[]) AS given(topic, type)
 WHERE {schema}.is_unhandled(given.topic, given.type)
