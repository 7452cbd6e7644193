-- How many events living workers have in hand.
-- parameters: none
-- returns: bigint
-- locks: nothing
SELECT coalesce(sum(w.events_in_flight), 0)::bigint FROM {schema}.workers w WHERE w.state IN ('running', 'draining')
