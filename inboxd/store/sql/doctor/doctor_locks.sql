-- Sessions that wait for a lock on one of our tables or rows, and the sessions that block them.
-- parameters: $1 double precision shortest wait in seconds, $2 integer most rows
-- returns: pid, role, application, waited (seconds), mode, on_table, blockers (pids; 0: a prepared
--          transaction)
-- locks: nothing
SELECT l.pid, a.usename::text AS role, a.application_name AS application, w.waited, l.mode,
       l.relation::regclass::text AS on_table, pg_blocking_pids(l.pid) AS blockers
  FROM pg_locks l
  JOIN pg_class c ON c.oid = l.relation AND c.relnamespace = to_regnamespace('{schema}')
  LEFT JOIN pg_stat_activity a ON a.pid = l.pid
 CROSS JOIN LATERAL (SELECT extract(epoch FROM clock_timestamp() - l.waitstart)::double precision AS waited) w
 WHERE NOT l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND w.waited >= $1
 ORDER BY w.waited DESC LIMIT $2
