-- Topics with handlers in a worker, including one that ended less than a week ago, since it may come back; or topics
-- that are declared for the first worker, which is still to come.
-- parameters: none
-- returns: topic of each, once
-- locks: nothing
SELECT split_part(each, E'\n', 1) AS topic FROM {schema}.workers, unnest(subscriptions) AS each
UNION
SELECT topic FROM {schema}.subscriptions
