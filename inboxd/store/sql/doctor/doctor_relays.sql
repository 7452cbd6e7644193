-- The topics of relays, and the events that their brokers refused and that are retried: each is the head of its line, and
-- holds up the rest.
-- parameters: $1 integer: where counting stops
-- returns: name, retried (events), oldest (seconds since the oldest of them was written; null: none), error (of the one
--          that is retried next; null: none)
-- locks: nothing
SELECT t.name, again.retried, again.oldest, again.errors[1] AS error
  FROM {schema}.topics t
 CROSS JOIN LATERAL (
     SELECT count(*) FILTER (WHERE few.is_again) AS retried,
            extract(epoch FROM clock_timestamp() - min(few.created_at) FILTER (WHERE few.is_again))::double precision AS oldest,
            array_agg(few.error) FILTER (WHERE few.is_again) AS errors
       FROM (SELECT e.created_at, e.attempts > 0 AS is_again,
                    {content text: left(e.errors -> -1 ->> 'error', 300)} AS error
               FROM {schema}.events e
              WHERE e.head::integer = 1 AND e.status LIKE 'waiting' AND e.topic = t.name
              ORDER BY e.type, e.run_at, e.id LIMIT $1) few) again
 WHERE t.relay
 ORDER BY t.name
