-- Schedules by name, with their next and last run.
-- parameters: $1 text after this name (null: from the first on), $2 integer rows (null: all)
-- returns: name, cron, zone, missed, expires_after, kind, type, lane, source, next_at, last_at, paused_at, undeclared_at, added_at, title, description
-- locks: nothing
SELECT s.name, s.cron, s.zone, s.missed, s.expires_after, s.kind, s.type, s.lane, s.source, s.next_at, s.last_at,
       c.paused_at, CASE WHEN s.added_at IS NULL THEN s.undeclared_at END AS undeclared_at, s.added_at, s.title, s.description
  FROM {schema}.schedules s
  LEFT JOIN {schema}.controls c ON c.kind = 'schedule' AND c.name = s.name
 WHERE s.name > coalesce($1::text, '')
 ORDER BY s.name LIMIT $2::integer
