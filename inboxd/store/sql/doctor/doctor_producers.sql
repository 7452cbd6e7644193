-- Logins of producers whose transactions may stay idle without a limit, by the settings of roles and databases. An open
-- transaction holds up the topics into which it wrote.
-- parameters: none
-- returns: role, by_server (neither role nor database has the setting, so the server's decides), reads_files (this session
--          may read the server's: doctor_idle_limit.sql), remedy (the statement that sets a limit)
-- locks: nothing
SELECT r.rolname::text AS role, own.value IS NULL AS by_server,
       has_table_privilege('pg_catalog.pg_file_settings', 'SELECT') AS reads_files,
       format('ALTER ROLE %I SET idle_in_transaction_session_timeout = ''1min'';', r.rolname) AS remedy
  FROM pg_roles producer
  JOIN pg_roles r ON r.rolcanlogin AND NOT r.rolsuper AND pg_has_role(r.oid, producer.oid, 'MEMBER')
  LEFT JOIN LATERAL (
       SELECT split_part(setting, '=', 2) AS value
         FROM pg_db_role_setting s CROSS JOIN unnest(s.setconfig) AS setting
        WHERE starts_with(setting, 'idle_in_transaction_session_timeout=') AND s.setrole IN (0, r.oid)
          AND s.setdatabase IN (SELECT 0::oid UNION ALL SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
        ORDER BY s.setrole = 0, s.setdatabase = 0 LIMIT 1) AS own ON true
 WHERE producer.rolname = '{schema}_producer' AND (own.value IS NULL OR own.value ~ '^0+[a-z]*$')
 ORDER BY r.rolname
