-- Dead letters as groups of equal failures: fingerprint and type, counted by an index alone; and of the
-- newest of each group what it says.
-- parameters: $1 text fingerprint (null: all), $2 integer limit
-- returns: kind, fingerprint, type, count, first_at, last_at, first_id, last_id, error (of the newest)
-- locks: nothing
SELECT '{kind}' AS kind, g.fingerprint, g.type, g.count, f.updated_at AS first_at, l.updated_at AS last_at,
       g.first_id, g.last_id, {content text: left(l.errors -> -1 ->> 'error', 1000)} AS error
  FROM (SELECT fingerprint, type, count(*) AS count, min(id) AS first_id, max(id) AS last_id
          FROM {schema}.{table}
         WHERE status || '' = 'failed' AND ($1::text IS NULL OR fingerprint = $1)
         GROUP BY fingerprint, type ORDER BY count(*) DESC, fingerprint, type LIMIT $2) g
  JOIN {schema}.{table} f ON f.id BETWEEN g.first_id AND g.first_id
  JOIN {schema}.{table} l ON l.id BETWEEN g.last_id AND g.last_id
 ORDER BY g.count DESC, g.fingerprint, g.type
