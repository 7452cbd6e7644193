-- The failure groups whose names begin as given, as far as needed to see whether there is only one: the first one of
-- events and of commands from there on, and the one after each.
-- parameters: $1 text beginning of a fingerprint
-- returns: fingerprint (may begin differently, or be returned twice)
-- locks: nothing
WITH first(fingerprint) AS MATERIALIZED (
    (SELECT fingerprint FROM {schema}.events
      WHERE status || '' = 'failed' AND fingerprint >= $1::text ORDER BY fingerprint, type, id LIMIT 1)
    UNION ALL
    (SELECT fingerprint FROM {schema}.commands
      WHERE status || '' = 'failed' AND fingerprint >= $1::text ORDER BY fingerprint, type, id LIMIT 1)
)
SELECT fingerprint FROM first
UNION ALL
SELECT next.fingerprint
  FROM first
 CROSS JOIN LATERAL (
    (SELECT e.fingerprint FROM {schema}.events e
      WHERE e.status || '' = 'failed' AND e.fingerprint > first.fingerprint
      ORDER BY e.fingerprint, e.type, e.id LIMIT 1)
    UNION ALL
    (SELECT c.fingerprint FROM {schema}.commands c
      WHERE c.status || '' = 'failed' AND c.fingerprint > first.fingerprint
      ORDER BY c.fingerprint, c.type, c.id LIMIT 1)) next
