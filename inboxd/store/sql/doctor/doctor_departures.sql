-- The partitions that are being detached or dropped, by the catalogue: their bounds are not read.
-- parameters: none
-- returns: parent, part, state (pending: its detach has begun; detached: retired, to be dropped), at_it (the pid
--          of the session that detaches it; null: none), behind (text[]: sessions for which that one waits)
-- locks: nothing
-- Between its two transactions, DETACH … CONCURRENTLY waits for old readers of the parent with no lock on any
-- table, unlike others that wait for a transaction's end; not every role can see its query.
SELECT parent.relname AS parent, part.relname AS part, 'pending' AS state, detaching.pid AS at_it,
       ARRAY(SELECT format('pid %s (%s)', b.pid, coalesce(nullif(h.application_name, ''), h.usename, 'no name'))
               FROM unnest(pg_blocking_pids(detaching.pid)) AS b(pid)
               LEFT JOIN pg_stat_activity h ON h.pid = b.pid) AS behind
  FROM pg_class parent
  JOIN pg_inherits i ON i.inhparent = parent.oid AND i.inhdetachpending
  JOIN pg_class part ON part.oid = i.inhrelid
  LEFT JOIN LATERAL (
      SELECT l.pid
        FROM pg_locks l
        JOIN pg_stat_activity a ON a.pid = l.pid AND a.datname = current_database()
       WHERE l.relation = part.oid AND l.mode = 'AccessExclusiveLock'
          OR l.locktype = 'virtualxid' AND NOT l.granted
             AND (strpos(lower(a.query), part.relname) > 0 OR a.query IN ('', '<insufficient privilege>'))
             AND NOT EXISTS (SELECT FROM pg_locks held WHERE held.pid = l.pid AND held.locktype = 'relation')
       LIMIT 1) detaching ON true
 WHERE parent.relnamespace = to_regnamespace('{schema}') AND parent.relkind = 'p'
UNION ALL
SELECT r.parent, r.part, 'detached', NULL, NULL
  FROM {schema}.retired r
  JOIN pg_class c ON c.oid = to_regclass(format('{schema}.%I', r.part)) AND NOT c.relispartition
 WHERE r.dropped_at IS NULL
 ORDER BY parent, part
