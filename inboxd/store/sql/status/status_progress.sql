-- Running commands whose handlers report progress, the longest running ones first.
-- parameters: $1 integer rows
-- returns: id, queue, type, done, total, note, at (of the report), running (seconds), worker
-- locks: nothing
SELECT c.id, c.queue, c.type, {content jsonb: c.progress->'done'} AS done, {content jsonb: c.progress->'of'} AS total,
       {content text: c.progress->>'note'} AS note, {content timestamptz: (c.progress->>'at')::timestamptz} AS at,
       extract(epoch FROM clock_timestamp() - c.started_at)::double precision AS running,
       (SELECT w.name FROM {schema}.workers w WHERE w.id = c.worker_id) AS worker
  FROM {schema}.commands c
 WHERE c.status = 'running' AND {content jsonb: c.progress} IS NOT NULL
 ORDER BY c.started_at LIMIT $1
