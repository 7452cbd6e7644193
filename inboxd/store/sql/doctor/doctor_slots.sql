-- Replication slots without a reader: the server keeps its WAL for them, until its disk is full.
-- parameters: none
-- returns: name, bytes (kept; null: lost)
-- locks: nothing
SELECT slot_name::text AS name,
       CASE WHEN NOT pg_is_in_recovery() THEN pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint END AS bytes
  FROM pg_replication_slots WHERE NOT active ORDER BY 2 DESC NULLS LAST, 1 LIMIT 20
