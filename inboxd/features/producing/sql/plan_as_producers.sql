-- Plan this transaction's statements as a producer's session does: the statements of row triggers only once.
-- parameters: none
-- returns: a row without meaning
-- locks: nothing
SELECT set_config('plan_cache_mode', 'auto', true), set_config('enable_seqscan', 'on', true)
