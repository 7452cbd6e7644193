-- Turn heads of lines that no live worker handles into dead letters; the caller has their buckets since an
-- earlier statement. If the topic's rule is `skip`, they leave their line.
-- The conditions keep the planner from walking over all heads.
-- parameters: $1 bigint[] ids, $2 text error (a JSON object), $3 interval: only heads due for this long
-- returns: id of each
-- locks: the rows, and those that become the heads
UPDATE {schema}.events e
   SET status = 'failed', errors = coalesce(e.errors, '[]') || (jsonb_build_object('at', clock_timestamp()) || $2::jsonb),
       fingerprint = 'no-handler:' || e.type, updated_at = clock_timestamp(),
       position = CASE WHEN given.skips THEN NULL ELSE e.position END, head = NOT given.skips
  FROM (SELECT h.id, coalesce(t.rules ->> 'on_failure' = 'skip', false) AS skips
          FROM {schema}.events h LEFT JOIN {schema}.topics t ON t.name = h.topic
         WHERE h.id = ANY ($1::bigint[])) given
 WHERE e.id BETWEEN given.id AND given.id AND CASE WHEN e.head THEN e.status = 'waiting' END AND e.run_at <= now() - $3::interval
RETURNING e.id
