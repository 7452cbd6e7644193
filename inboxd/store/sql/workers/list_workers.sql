-- The present workers, or also those that ended during the last week, newest first.
-- parameters: $1 boolean ended ones too, $2 integer limit
-- returns: id, name, process (null: it has no supervisor), host, pid, version, release (its
--          plugins, with their versions), state, in_flight, events_in_flight
--          and commands_in_flight (of those; null: a worker of an older release, which does not report them), silence
--          (seconds since the last heartbeat), started_at, ended_at, queues and topics (that it serves; empty: all),
--          events, commands, leads (it runs the tasks that only one worker runs)
-- locks: nothing
SELECT id, name, process, host, pid, version, release, state, in_flight, events_in_flight, in_flight - events_in_flight AS commands_in_flight,
       greatest(extract(epoch FROM clock_timestamp() - beat_at), 0)::double precision AS silence,
       started_at, ended_at, queues, served_topics AS topics, events, commands,
       state = 'running' AND EXISTS (SELECT FROM {schema}.leases l WHERE l.holder = id AND l.name = 'leader') AS leads
  FROM {schema}.workers
 WHERE $1::boolean OR state IN ('running', 'draining')
 ORDER BY started_at DESC, id LIMIT $2
