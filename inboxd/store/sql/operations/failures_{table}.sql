-- Dead letters as groups of equal failures: fingerprint and type, counted by an index alone; with the error of the
-- newest one of each group.
-- parameters: $1 text fingerprint (null: all), $2 integer limit
-- returns: kind, fingerprint, type, count, first_at, last_at, first_id, last_id, error (of the newest); of the whole group
--          at the time when it was archived, null if it was not: archived_at, archived_by, archived_because,
--          archived_count, archived_last_id
-- locks: nothing
SELECT '{kind}' AS kind, g.fingerprint, g.type, g.count, f.updated_at AS first_at, l.updated_at AS last_at,
       g.first_id, g.last_id, {content text: left(l.errors -> -1 ->> 'error', 1000)} AS error, a.archived_at,
       a.actor AS archived_by, a.reason AS archived_because, a.count AS archived_count, a.last_id AS archived_last_id
  FROM (SELECT fingerprint, type, count(*) AS count, min(id) AS first_id, max(id) AS last_id
          FROM {schema}.{table}
         WHERE status || '' = 'failed' AND ($1::text IS NULL OR fingerprint = $1)
         GROUP BY fingerprint, type ORDER BY count(*) DESC, fingerprint, type LIMIT $2) g
  JOIN {schema}.{table} f ON f.id BETWEEN g.first_id AND g.first_id
  JOIN {schema}.{table} l ON l.id BETWEEN g.last_id AND g.last_id
  LEFT JOIN {schema}.archived_failures a ON a.kind = '{kind}' AND a.fingerprint = g.fingerprint
 ORDER BY g.count DESC, g.fingerprint, g.type
