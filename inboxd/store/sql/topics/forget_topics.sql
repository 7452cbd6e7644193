-- Delete topics without unsettled events that no living worker has declared for a week, or for the time for which their own
-- declaration keeps dedup keys, if that is longer; and their pauses.
-- parameters: none
-- returns: name of each
-- locks: the rows
WITH gone AS (
    DELETE FROM {schema}.topics t
     WHERE t.undeclared_at < clock_timestamp()
                             - greatest(interval '7 days', (t.rules ->> 'dedup_window')::interval)
       AND NOT EXISTS (SELECT FROM {schema}.events e
                        WHERE e.topic = t.name AND e.status = 'waiting' AND e.position IS NULL OFFSET 0)
       AND NOT EXISTS (SELECT FROM {schema}.events e WHERE e.topic = t.name AND e.head OFFSET 0)
    RETURNING name
), pauses AS (
    DELETE FROM {schema}.controls c USING gone WHERE c.kind = 'topic' AND c.name = gone.name
)
SELECT name FROM gone
