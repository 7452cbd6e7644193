-- When the next bulk action goes on.
-- parameters: none
-- returns: the time until then; null: none does by itself
-- locks: nothing
SELECT min(next_at) - clock_timestamp() FROM {schema}.actions WHERE status IN ('scheduled', 'canary', 'running')
