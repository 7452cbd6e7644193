-- The time until the next bulk action is due.
-- parameters: none
-- returns: interval; null: no action continues by itself
-- locks: nothing
SELECT min(next_at) - clock_timestamp() FROM {schema}.actions WHERE status IN ('scheduled', 'canary', 'running')
