-- The breakers that do not let all calls pass: those that probe as well.
-- parameters: none
-- returns: name
-- locks: nothing
SELECT name FROM {schema}.breakers WHERE mode = 'open' OR mode = 'auto' AND state <> 'closed' ORDER BY name
