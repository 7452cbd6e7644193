-- Dead letters of webhooks: contradictions, and bodies of which no event could be made; by source.
-- parameters: $1 text[] their fingerprints, $2 integer rows counted of each fingerprint at most
-- returns: source, rows, oldest (seconds since the first of them failed), newest (since the last)
-- locks: nothing
SELECT e.source, count(*)::bigint AS rows,
       extract(epoch FROM clock_timestamp() - min(e.updated_at))::double precision AS oldest,
       extract(epoch FROM clock_timestamp() - max(e.updated_at))::double precision AS newest
  FROM unnest($1::text[]) AS given(fingerprint)
 CROSS JOIN LATERAL (
       SELECT source, updated_at FROM {schema}.events
        WHERE status || '' = 'failed' AND fingerprint = given.fingerprint AND origin_kind = 'receipt'
        LIMIT $2) AS e
 GROUP BY e.source ORDER BY e.source
