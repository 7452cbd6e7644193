-- Due rows in lanes, handled or not: tests use it to find what was left.
-- parameters: none
-- returns: kind (event, command), lane (topic or queue), type, id
-- locks: nothing
SELECT 'event' AS kind, topic AS lane, type, id FROM {schema}.events WHERE status = 'pending' AND run_at <= now()
UNION ALL
SELECT 'command', queue, type, id FROM {schema}.commands WHERE status = 'pending' AND run_at <= now()
ORDER BY kind, id
