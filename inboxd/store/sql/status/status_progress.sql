-- Running commands whose handlers say how far they have come, the longest running ones first.
-- parameters: $1 integer rows
-- returns: id, queue, type, done, total, note, at (when it was said), running (seconds), worker
-- locks: nothing
SELECT c.id, c.queue, c.type, c.progress->'done' AS done, c.progress->'of' AS total,
       c.progress->>'note' AS note, (c.progress->>'at')::timestamptz AS at,
       extract(epoch FROM clock_timestamp() - c.started_at)::double precision AS running,
       (SELECT w.name FROM {schema}.workers w WHERE w.id = c.worker_id) AS worker
  FROM {schema}.commands c
 WHERE c.status = 'running' AND c.progress IS NOT NULL
 ORDER BY c.started_at LIMIT $1
