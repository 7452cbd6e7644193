-- Topics that a worker has handlers for, be it one that ended less than a week ago: it may come back; or that
-- are declared for the first one, which is still to come.
-- parameters: none
-- returns: topic of each, once
-- locks: nothing
SELECT split_part(each, E'\n', 1) AS topic FROM {schema}.workers, unnest(subscriptions) AS each
UNION
SELECT topic FROM {schema}.subscriptions
