-- Which mode each declared topic has.
-- parameters: none
-- returns: name, mode
-- locks: nothing
SELECT name, mode FROM {schema}.topics
