-- Move events of a batch topic that no worker serves to their lanes, where they are kept for a worker that runs them alone.
-- parameters: $1 text topic, $2 integer rows, $3 interval: only events that are older than this
-- returns: nothing (the command tag counts the rows)
-- locks: the rows; the caller has all buckets of the topic
WITH stranded AS MATERIALIZED (
    (SELECT e.id FROM {schema}.events e
      WHERE e.status = 'waiting' AND e.position IS NULL AND e.topic = $1 AND e.mode = 'batch'
        AND e.created_at < now() - $3::interval ORDER BY e.bucket, e.id LIMIT $2)
    UNION ALL
    (SELECT e.id FROM {schema}.events e
      WHERE e.position IS NOT NULL AND e.topic = $1 AND e.mode = 'batch' AND e.status = 'waiting'
        AND e.created_at < now() - $3::interval ORDER BY e.ordering_key, e.position LIMIT $2)
)
UPDATE {schema}.events e
   SET status = 'pending', position = NULL, head = false, run_at = clock_timestamp(), updated_at = clock_timestamp()
  FROM stranded WHERE e.id BETWEEN stranded.id AND stranded.id
