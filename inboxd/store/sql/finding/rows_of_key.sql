-- Unsettled rows that have a key, as ordering key or as unique key, in some lanes.
-- parameters: $1 text key, $2 text[] topics, $3 text[] queues, $4 text[] types of commands, $5 integer rows of each
-- returns: kind, id, type, status, what (which key it is), each row once
-- locks: nothing
SELECT DISTINCT ON (kind, id) kind, id, type, status, what
  FROM (
    (SELECT 'event' AS kind, e.id, e.type, e.status, 'ordering key' AS what
       FROM unnest($2::text[]) AS lane(topic)
      CROSS JOIN LATERAL (SELECT l.id, l.type, l.status FROM {schema}.events l
                           WHERE l.topic = lane.topic AND l.ordering_key = $1::text AND l.position IS NOT NULL
                           ORDER BY l.position LIMIT $5::integer) e LIMIT $5)
    UNION ALL
    (SELECT 'command', c.id, c.type, c.status, 'ordering key'
       FROM unnest($3::text[]) AS lane(queue)
      CROSS JOIN LATERAL (
          (SELECT l.id, l.type, l.status FROM {schema}.commands l
            WHERE l.queue = lane.queue AND l.ordering_key = $1 AND l.line_at IS NOT NULL LIMIT $5)
          UNION ALL
          (SELECT l.id, l.type, l.status FROM {schema}.commands l
            WHERE l.status = 'waiting' AND l.needs = 0 AND l.line_at IS NULL
              AND l.queue = lane.queue AND l.ordering_key = $1 ORDER BY l.run_at, l.id LIMIT $5)) c LIMIT $5)
    UNION ALL
    (SELECT 'command', c.id, c.type, c.status, 'unique key'
       FROM unnest($4::text[]) AS of(type)
      CROSS JOIN LATERAL (SELECT u.id, u.type, u.status FROM {schema}.commands u
                           WHERE u.type = of.type AND u.unique_key = $1 AND u.status <> 'failed' LIMIT 1) c LIMIT $5)
  ) found
 ORDER BY kind, id, what LIMIT $5
