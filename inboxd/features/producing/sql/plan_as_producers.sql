-- Plan this transaction's statements as a producer's session does: row triggers use one plan for many rows.
-- parameters: none
-- returns: a row without meaning
-- locks: nothing
SELECT set_config('plan_cache_mode', 'auto', true), set_config('enable_seqscan', 'on', true)
