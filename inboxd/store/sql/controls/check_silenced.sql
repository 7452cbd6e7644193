-- The roles and databases whose sessions never wake a worker (SET inboxd.notify = 'off').
-- parameters: none
-- returns: name of each
-- locks: nothing
SELECT coalesce('role ' || r.rolname, 'database ' || d.datname, 'every session') AS name
  FROM pg_db_role_setting s
  LEFT JOIN pg_roles r ON r.oid = s.setrole
  LEFT JOIN pg_database d ON d.oid = s.setdatabase
 WHERE 'inboxd.notify=off' = ANY (s.setconfig)
   AND (s.setdatabase = 0 OR d.datname = current_database())
