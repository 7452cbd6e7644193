-- Until the transaction ends, plan each statement for its parameters, as for operators: the filter decides which index
-- fits.
-- parameters: none
-- returns: nothing
-- locks: nothing
SET LOCAL plan_cache_mode = force_custom_plan
