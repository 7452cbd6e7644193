-- How many topics' arrivals are left alone, since a declaration takes in what waited, or is about to.
-- parameters: none
-- returns: the number
-- locks: nothing
SELECT count(DISTINCT i.topic) FROM {schema}.intakes i WHERE i.finished_at IS NULL
