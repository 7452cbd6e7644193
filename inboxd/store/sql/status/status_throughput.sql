-- What was executed in the last minutes, the running one included, by kind and type.
-- parameters: $1 integer whole minutes before the running one
-- returns: kind, type, seconds (the time they cover), succeeded, retried, deferred, failed, cancelled,
--          ignored, mean and maximum (seconds a row took)
-- locks: nothing
SELECT kind, type,
       extract(epoch FROM clock_timestamp() - date_trunc('minute', now()) + make_interval(mins => $1))
           ::double precision AS seconds,
       coalesce(sum(count) FILTER (WHERE outcome = 'succeeded'), 0)::bigint AS succeeded,
       coalesce(sum(count) FILTER (WHERE outcome = 'retried'), 0)::bigint AS retried,
       coalesce(sum(count) FILTER (WHERE outcome = 'deferred'), 0)::bigint AS deferred,
       coalesce(sum(count) FILTER (WHERE outcome = 'failed'), 0)::bigint AS failed,
       coalesce(sum(count) FILTER (WHERE outcome = 'cancelled'), 0)::bigint AS cancelled,
       coalesce(sum(count) FILTER (WHERE outcome = 'ignored'), 0)::bigint AS ignored,
       sum(total) / nullif(sum(count) FILTER (WHERE outcome <> 'ignored'), 0)::double precision AS mean,
       max(maximum) AS maximum
  FROM {schema}.stats
 WHERE outcome IN ('succeeded', 'retried', 'deferred', 'failed', 'cancelled', 'ignored')
   AND minute >= date_trunc('minute', now()) - make_interval(mins => $1)
 GROUP BY kind, type ORDER BY kind DESC, type
