-- Delete receivers that have been silent for more than a week, so that the table stays small.
-- parameters: none
-- returns: nothing (the command tag counts the rows)
-- locks: the rows
DELETE FROM {schema}.receivers WHERE beat_at < now() - interval '7 days'
