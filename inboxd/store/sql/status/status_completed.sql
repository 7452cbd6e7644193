-- What succeeded in the last hour and day, how long after its creation, and what became of what had failed before;
-- whole minutes, the running one included.
-- parameters: $1 integer: 24, or 1 for the hour alone
-- returns: hours (1 or 24), kind, type, completed, mean and maximum (seconds from a row's creation to its
--          success), attempts (executions that spent one), reprocessed (those of them that followed a retry or a
--          replay), after_retry and after_replay (of those, what succeeded), failed_again (of those, new dead letters)
-- locks: nothing
WITH sums AS MATERIALIZED (  -- each row of a day is looked at once, and counted for both
    SELECT minute >= date_trunc('minute', now()) - interval '1 hour' AS in_hour, kind, type, outcome,
           sum(count) AS count, sum(total) AS total, max(maximum) AS maximum
      FROM {schema}.stats
     WHERE minute >= date_trunc('minute', now()) - make_interval(hours => $1)
       AND outcome NOT IN ('ignored', 'deferred')
     GROUP BY 1, kind, type, outcome
)
SELECT span.hours, s.kind, s.type,
       coalesce(sum(s.count) FILTER (WHERE s.outcome = 'completed'), 0)::bigint AS completed,
       sum(s.total) FILTER (WHERE s.outcome = 'completed')
           / sum(s.count) FILTER (WHERE s.outcome = 'completed')::double precision AS mean,
       max(s.maximum) FILTER (WHERE s.outcome = 'completed') AS maximum,
       coalesce(sum(s.count) FILTER (WHERE s.outcome IN ('succeeded', 'retried', 'failed', 'cancelled')), 0)::bigint
           AS attempts,
       coalesce(sum(s.count) FILTER (WHERE s.outcome LIKE '% after %' AND s.outcome NOT LIKE 'deferred %'), 0)::bigint
           AS reprocessed,
       coalesce(sum(s.count) FILTER (WHERE s.outcome = 'succeeded after retry'), 0)::bigint AS after_retry,
       coalesce(sum(s.count) FILTER (WHERE s.outcome = 'succeeded after replay'), 0)::bigint AS after_replay,
       coalesce(sum(s.count) FILTER (WHERE s.outcome LIKE 'failed after %'), 0)::bigint AS failed_again
  FROM (VALUES (1), (24)) AS span(hours)
  JOIN sums s ON s.in_hour OR span.hours > 1
 WHERE span.hours <= $1
 GROUP BY span.hours, s.kind, s.type
 ORDER BY span.hours, s.kind DESC, s.type
