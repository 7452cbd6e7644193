-- Plan the statements of this transaction as a producer's session does: what triggers run for each row, once.
-- parameters: none
-- returns: nothing of use
-- locks: nothing
SELECT set_config('plan_cache_mode', 'auto', true), set_config('enable_seqscan', 'on', true)
