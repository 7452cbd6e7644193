-- The workers that were not declared dead, with their heartbeat numbers and what they serve.
-- parameters: none
-- returns: id, name, heartbeat, state, commands, queues
-- locks: nothing
SELECT id, name, heartbeat, state, commands, queues
  FROM {schema}.workers WHERE state IN ('running', 'draining')
