-- The reports of living workers about sources of messages that they read, or would read.
-- parameters: none
-- returns: source, worker_id, worker (name), process, host, broker, state, trouble (null too where it may not be read),
--          lag, since, shown_at
-- locks: nothing
SELECT r.source, r.worker_id, w.name AS worker, w.process, w.host, r.broker, r.state, {content text: r.trouble} AS trouble, r.lag,
       r.since, r.shown_at
  FROM {schema}.message_readers r JOIN {schema}.workers w ON w.id = r.worker_id AND w.state IN ('running', 'draining')
 ORDER BY r.source, w.name, w.process, r.worker_id
