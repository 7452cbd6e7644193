-- The sources with held receipts, the longest waiting one first.
-- parameters: $1 integer receipts counted of each at most
-- returns: source, held_at (since when), receipts, paused (by an operator, or by the settings of a receiver with a
--          heartbeat within a day)
-- locks: nothing
SELECT s.source, s.held_at,
       (SELECT count(*) FROM (SELECT FROM {schema}.held_receipts h WHERE h.source = s.source LIMIT $1) AS counted) AS receipts,
       EXISTS (SELECT FROM {schema}.controls c WHERE c.kind = 'source' AND c.name = s.source OFFSET 0)
       OR EXISTS (SELECT FROM {schema}.receivers r
                   WHERE s.source = ANY (r.holds) AND r.state IN ('running', 'draining')
                     AND r.beat_at > now() - interval '1 day' OFFSET 0) AS paused
  FROM {schema}.held_sources s
 ORDER BY s.held_at, s.source
