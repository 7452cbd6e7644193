-- Delete workers that ended more than a week ago, so that the table stays small.
-- parameters: none
-- returns: nothing (the command tag counts the rows)
-- locks: the rows
DELETE FROM {schema}.workers WHERE ended_at < now() - interval '7 days'
