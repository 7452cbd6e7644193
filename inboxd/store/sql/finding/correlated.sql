-- Among the newest $2 rows of each table, hot or settled, the first ones with a correlation id.
-- parameters: $1 text correlation_id, $2 integer rows looked at of each, $3 integer rows returned, $4 timestamptz since
--             when settled rows were settled
-- returns: kind, id, type, status, created_at, by created_at
-- locks: nothing
SELECT * FROM (
    SELECT 'event' AS kind, e.id, e.type, e.status, e.created_at
      FROM (SELECT id, type, status, created_at, correlation_id FROM {schema}.events ORDER BY id DESC LIMIT $2::integer) e
     WHERE e.correlation_id = $1::text
    UNION ALL
    SELECT 'event', h.id, h.type, h.status, h.created_at
      FROM (SELECT id, type, status, created_at, correlation_id FROM {schema}.events_history
             WHERE finished_at >= $4::timestamptz ORDER BY id DESC LIMIT $2) h
     WHERE h.correlation_id = $1
    UNION ALL
    SELECT 'command', c.id, c.type, c.status, c.created_at
      FROM (SELECT id, type, status, created_at, correlation_id FROM {schema}.commands ORDER BY id DESC LIMIT $2) c
     WHERE c.correlation_id = $1
    UNION ALL
    SELECT 'command', h.id, h.type, h.status, h.created_at
      FROM (SELECT id, type, status, created_at, correlation_id FROM {schema}.commands_history
             WHERE finished_at >= $4 ORDER BY id DESC LIMIT $2) h
     WHERE h.correlation_id = $1
  ) found
 ORDER BY created_at, kind, id LIMIT $3
