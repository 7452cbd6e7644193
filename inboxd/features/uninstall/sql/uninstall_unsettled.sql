-- The numbers of unsettled events and commands; the counts stop at a limit.
-- parameters: $1 integer limit
-- returns: events, commands
-- locks: nothing
SELECT (SELECT count(*) FROM (SELECT FROM {schema}.events LIMIT $1) AS e) AS events,
       (SELECT count(*) FROM (SELECT FROM {schema}.commands LIMIT $1) AS c) AS commands
