-- Sessions outside inboxd that hold advisory locks with names of the inbox: claims skip the rows behind these locks. Except
-- for `inboxd migrate`, inboxd takes such locks only inside transactions, by logins that may change rows; producers and
-- receivers take those of unique keys, of the order of ids, of paused sources and of partitions. Shared locks of the order
-- are harmless.
-- parameters: $1 integer most rows
-- returns: pid, role, application, state, since (seconds in that state; null: not visible), locks (their
--          number), may_hold (its login may take such locks, but no session of inboxd's keeps them)
-- locks: nothing
WITH named(class, is_everybodys) AS (
    SELECT hashtext('{schema}' || part || t.name)::oid, false
      FROM {schema}.topics t CROSS JOIN unnest(ARRAY['/', '.slots.']) AS part
    UNION ALL
    SELECT hashtext('{schema}' || part)::oid, false
      FROM unnest(ARRAY['.line', '/actions', '.reserve', '.releasing', '.intake']) AS part
    UNION ALL
    SELECT hashtext('{schema}' || part)::oid, true
      FROM unnest(ARRAY['', '.unique', '.held', '.partitions', '.order', '.order.topics']) AS part
), held AS (
    SELECT l.pid, count(*) AS locks, bool_and(named.is_everybodys) AS is_everybodys,
           bool_and(l.classid = hashtext('{schema}')::oid AND l.objid = 3) AS is_migrators
      FROM pg_locks l JOIN named ON named.class = l.classid
     WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.granted AND l.pid <> pg_backend_pid()
       AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
       AND NOT (l.mode = 'ShareLock' AND l.classid IN (hashtext('{schema}.order')::oid, hashtext('{schema}.order.topics')::oid))
     GROUP BY l.pid
), judged AS (
    SELECT a.pid, a.usename::text AS role, a.application_name AS application, a.state,
           extract(epoch FROM clock_timestamp() - a.state_change)::double precision AS since, held.locks, held.is_migrators,
           -- The session may have such a role by SET ROLE alone.
           EXISTS (SELECT FROM pg_roles r
                    WHERE pg_has_role(a.usesysid, r.oid, 'MEMBER')
                      AND CASE WHEN held.is_everybodys THEN has_schema_privilege(r.oid, '{schema}', 'USAGE')
                               ELSE has_any_column_privilege(r.oid, '{schema}.events', 'UPDATE') END) AS may_hold
      FROM held JOIN pg_stat_activity a ON a.pid = held.pid
)
SELECT pid, role, application, state, since, locks, may_hold
  FROM judged
 -- The views are read one after the other: a session that became idle between may have released its locks.
 WHERE NOT may_hold OR state = 'idle' AND since > 1 AND NOT is_migrators
 ORDER BY locks DESC, pid LIMIT $1
