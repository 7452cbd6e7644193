-- Finish an intake if no event waits any more, so that its topics go on; events that are served in `default` stay there.
-- (EXISTS would drop the order, and with it the index.)
-- parameters: $1 text origin, $2 text type, $3 timestamptz: when the last of its topics was declared
-- returns: topic of each
-- locks: the rows
UPDATE {schema}.intakes i SET finished_at = clock_timestamp()
 WHERE i.origin = $1 AND i.type = $2 AND i.finished_at IS NULL AND i.opened_at <= $3
   AND ($2 = '' AND NOT EXISTS (SELECT FROM {schema}.topics t WHERE t.name = $1 AND t.mode <> 'single')
        OR EXISTS (SELECT FROM {schema}.subscriptions s WHERE s.type = $2 AND s.topic = $1)
        OR $2 <> '' AND NOT EXISTS (SELECT FROM {schema}.subscriptions s WHERE s.type = $2)
        OR CASE WHEN $2 = ''
                THEN (SELECT e.id FROM {schema}.events e
                       WHERE e.status = 'pending' AND e.topic = $1 AND e.mode = 'single'
                       ORDER BY e.topic, e.type, e.run_at, e.id LIMIT 1) IS NULL
                ELSE (SELECT e.id FROM {schema}.events e
                       WHERE e.status = 'pending' AND e.topic = $1 AND e.type = $2 AND e.mode = 'single'
                       ORDER BY e.topic, e.type, e.run_at, e.id LIMIT 1) IS NULL
           END)
RETURNING i.topic
