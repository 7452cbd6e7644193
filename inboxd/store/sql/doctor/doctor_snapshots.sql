-- The holders of the oldest snapshots: every vacuum keeps dead rows that one of these may still see.
-- parameters: $1 integer most rows
-- returns: holder (session, standby, prepared, slot), name (a pid, or the name by which it can be ended), role,
--          application, state, since (seconds; null: unknown or not visible), age (transactions)
-- locks: nothing
SELECT holder, name, role, application, state, since, age FROM (
    SELECT 'session' AS holder, pid::text AS name, usename::text AS role, application_name AS application, state,
           extract(epoch FROM clock_timestamp() - xact_start)::double precision AS since,
           greatest(age(backend_xmin), age(backend_xid)) AS age
      FROM pg_stat_activity
     WHERE datname = current_database() AND pid <> pg_backend_pid()
       AND coalesce(backend_type, '') NOT IN ('walsender', 'autovacuum worker')
       AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
       -- A vacuum's own snapshot holds back no other.
       AND pid NOT IN (SELECT pid FROM pg_stat_progress_vacuum)
    UNION ALL
    SELECT 'standby', pid::text, usename::text, application_name, state, NULL, age(backend_xmin)
      FROM pg_stat_replication WHERE backend_xmin IS NOT NULL
    UNION ALL
    SELECT 'prepared', gid, owner::text, NULL, NULL,
           extract(epoch FROM clock_timestamp() - prepared)::double precision, age(transaction)
      FROM pg_prepared_xacts WHERE database = current_database()
    UNION ALL
    SELECT 'slot', slot_name::text, NULL, NULL, CASE WHEN active THEN 'active' ELSE 'inactive' END, NULL, age(xmin)
      FROM pg_replication_slots WHERE xmin IS NOT NULL
) AS holders
 ORDER BY age DESC NULLS LAST, since DESC NULLS LAST LIMIT $1
