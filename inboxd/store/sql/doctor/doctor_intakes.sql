-- Topics with an unfinished intake, and the sessions that write events.
-- parameters: none
-- returns: topic, age (seconds since the intake was announced), writers (pid and application of each)
-- locks: nothing (the lock manager's, all partitions, for as long as it takes to copy its entries)
SELECT held.topic, held.age, CASE WHEN held.age > 1 THEN ARRAY(
           SELECT DISTINCT a.pid || coalesce(' (' || nullif(a.application_name, '') || ')', '')
             FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
            WHERE l.locktype = 'relation' AND l.relation = '{schema}.events'::regclass
              AND l.mode = 'RowExclusiveLock'
              AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())) END AS writers
  FROM (SELECT i.topic, extract(epoch FROM clock_timestamp() - min(i.declared_at))::double precision AS age
          FROM {schema}.intakes i WHERE i.finished_at IS NULL GROUP BY i.topic) AS held
 ORDER BY held.topic
