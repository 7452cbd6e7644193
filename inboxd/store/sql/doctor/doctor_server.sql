-- The server's settings and counts that decide how safe and how fast inboxd can be.
-- parameters: none
-- returns: version (number), version_text, role, read_only (a standby, or by settings of the server, the database or the
--          role; not by those of this session), autovacuum, track_counts, track_activities, fsync,
--          full_page_writes, synchronous_commit, waits_for_standby (commits wait for one), standbys (that
--          confirm commits; null: not visible), unawaited (names of standbys for which no commit waits; null: not visible),
--          reads_others (the role sees all sessions), connections, most_connections (without those reserved for
--          superusers), age (of the oldest unfrozen transaction id)
-- locks: nothing
SELECT current_setting('server_version_num')::integer AS version, current_setting('server_version') AS version_text,
       current_user::text AS role,
       pg_is_in_recovery()
           OR (SELECT s.setting::boolean AND s.source NOT IN ('client', 'session') FROM pg_settings s
                WHERE s.name = 'default_transaction_read_only') AS read_only,
       current_setting('autovacuum')::boolean AS autovacuum,
       current_setting('track_counts')::boolean AS track_counts,
       current_setting('track_activities')::boolean AS track_activities,
       current_setting('fsync')::boolean AS fsync,
       current_setting('full_page_writes')::boolean AS full_page_writes,
       current_setting('synchronous_commit') AS synchronous_commit,
       c.waits AS waits_for_standby,
       CASE WHEN pg_has_role('pg_read_all_stats', 'USAGE') THEN (
           SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')) END AS standbys,
       CASE WHEN pg_has_role('pg_read_all_stats', 'USAGE') THEN ARRAY(
           SELECT concat_ws(' at ', r.application_name, host(r.client_addr))
             FROM pg_stat_replication r LEFT JOIN pg_replication_slots s ON s.active_pid = r.pid
            WHERE s.slot_type IS DISTINCT FROM 'logical' AND r.state <> 'backup'
              AND NOT (c.waits AND r.sync_state IN ('sync', 'quorum')) ORDER BY 1) END AS unawaited,
       pg_has_role('pg_read_all_stats', 'USAGE') AS reads_others,
       (SELECT sum(numbackends)::bigint FROM pg_stat_database) AS connections,
       current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint
           AS most_connections,
       (SELECT greatest(age(datfrozenxid), mxid_age(datminmxid)) FROM pg_database
         WHERE datname = current_database()) AS age
  FROM (SELECT current_setting('synchronous_standby_names') <> ''
               AND current_setting('synchronous_commit') NOT IN ('off', 'local') AS waits) c
