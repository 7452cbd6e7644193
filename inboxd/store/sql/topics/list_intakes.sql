-- The unfinished intakes; and finished ones for which events wait again: a replayed dead letter, or events that were
-- written long after the declaration under a snapshot from before it.
-- Only the first 1,000 events of a topic are looked at: a batch topic may have many kept ones that no worker handles.
-- (EXISTS would drop the order, and with it the index.)
-- parameters: $1 boolean: whether to look for the latter
-- returns: origin, type; opened (when the last of its topics was declared; null: one is only announced),
--          finished, topics, taken, and age (seconds since it was announced)
-- locks: nothing
SELECT i.origin, i.type, CASE WHEN bool_and(i.opened_at IS NOT NULL) THEN max(i.opened_at) END AS opened,
       bool_and(i.finished_at IS NOT NULL) AS finished, array_agg(i.topic ORDER BY i.topic) AS topics,
       max(i.taken) AS taken,
       extract(epoch FROM clock_timestamp() - min(i.declared_at))::double precision AS age
  FROM {schema}.intakes i
 WHERE i.finished_at IS NULL
    OR $1 AND i.type <> '' AND (
           SELECT e.id FROM {schema}.events e
            WHERE e.status = 'pending' AND e.topic = i.origin AND e.type = i.type AND e.mode = 'single'
            ORDER BY e.topic, e.type, e.run_at, e.id LIMIT 1) IS NOT NULL
    OR $1 AND i.type = '' AND (
           SELECT few.id FROM (
               SELECT e.id, e.mode FROM {schema}.events e
                WHERE e.status = 'pending' AND e.topic = i.origin
                ORDER BY e.topic, e.type, e.run_at, e.id LIMIT 1000) AS few
            WHERE few.mode = 'single' LIMIT 1) IS NOT NULL
 GROUP BY i.origin, i.type
 ORDER BY i.origin, i.type
