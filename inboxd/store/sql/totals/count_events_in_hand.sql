-- The number of events that living workers are running.
-- parameters: none
-- returns: bigint
-- locks: nothing
SELECT coalesce(sum(w.events_in_flight), 0)::bigint FROM {schema}.workers w WHERE w.state IN ('running', 'draining')
