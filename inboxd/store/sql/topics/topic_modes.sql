-- The mode of each declared topic.
-- parameters: none
-- returns: name, mode
-- locks: nothing
SELECT name, mode FROM {schema}.topics
