-- Until the transaction ends, statements are planned for what is asked, as an operator's are: a filter decides which
-- index serves it.
-- parameters: none
-- returns: nothing
-- locks: nothing
SET LOCAL plan_cache_mode = force_custom_plan
