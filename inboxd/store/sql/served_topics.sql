-- Topics that a worker has handlers for, be it one that ended less than a week ago: it may come back.
-- parameters: none
-- returns: topic of each, once
-- locks: nothing
SELECT DISTINCT split_part(each, E'\n', 1) AS topic FROM {schema}.workers, unnest(subscriptions) AS each
