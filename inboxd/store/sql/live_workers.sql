-- The workers that are not known to be dead, with their heartbeat numbers and what they serve.
-- parameters: none
-- returns: id, name, heartbeat, state, events, commands, queues, subscriptions (topic, line feed, type)
-- locks: nothing
SELECT id, name, heartbeat, state, events, commands, queues, subscriptions
  FROM {schema}.workers WHERE state IN ('running', 'draining')
