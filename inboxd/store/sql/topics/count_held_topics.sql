-- The number of topics whose arrivals are not processed, since an intake is unfinished or announced.
-- parameters: none
-- returns: the number
-- locks: nothing
SELECT count(DISTINCT i.topic) FROM {schema}.intakes i WHERE i.finished_at IS NULL
