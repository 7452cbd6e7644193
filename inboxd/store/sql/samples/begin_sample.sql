-- Begin a sample: set the time limit of this transaction's statements, and return numbers that need no counting.
-- parameters: $1 text time limit of a statement
-- returns: one row: at, events_written and commands_written (inserts as the server has counted them since its statistics
--          began: includes rolled-back ones, and lags some seconds behind sessions that insert and then rest), workers
--          (living ones), events_running and commands_running (by their last heartbeats)
-- locks: nothing
SELECT now() AS at,
       pg_stat_get_tuples_inserted('{schema}.events'::regclass) AS events_written,
       pg_stat_get_tuples_inserted('{schema}.commands'::regclass) AS commands_written,
       living.*
  FROM (SELECT count(*) AS workers, coalesce(sum(w.events_in_flight), 0) AS events_running,
               coalesce(sum(w.in_flight - coalesce(w.events_in_flight, 0)), 0) AS commands_running
          FROM {schema}.workers w WHERE w.state IN ('running', 'draining')) living,
       set_config('statement_timeout', $1, true)
