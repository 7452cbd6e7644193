-- Whether webhooks are received here, or were.
-- parameters: none
-- returns: boolean
-- locks: nothing
-- Rows of receivers that ended go only when another one has begun, so one is left of those that ever were.
SELECT EXISTS (SELECT FROM {schema}.receivers)
