-- The breakers that do not let all calls pass, including those that probe.
-- parameters: none
-- returns: name
-- locks: nothing
SELECT name FROM {schema}.breakers WHERE mode = 'open' OR mode = 'auto' AND state <> 'closed' ORDER BY name
