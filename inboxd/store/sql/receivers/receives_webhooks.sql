-- Whether webhooks are received here, or were.
-- parameters: none
-- returns: boolean
-- locks: nothing
-- A receiver's row is deleted only after another has begun, so one of them always remains.
SELECT EXISTS (SELECT FROM {schema}.receivers)
