-- Days of events and receipts that must be counted for the daily statement: first those without a count by source; then
-- those that got or lost rows, or became smaller, since their count; then the one that was counted longest ago.
-- parameters: $1 interval: the most age of a count, $2 integer partitions
-- returns: parent, part, low, high (its range), pages, over (true)
-- locks: briefly, as every reader
WITH days AS MATERIALIZED (
    SELECT p.parent, p.part, p.oid, p.low, p.high, c.counted_at,
           CASE WHEN c.part IS NULL OR c.written IS NULL THEN 0
                WHEN pg_stat_get_tuples_inserted(p.oid) + pg_stat_get_tuples_deleted(p.oid) > c.written
                  OR pg_relation_size(p.oid) < c.bytes THEN 1
                WHEN c.counted_at < now() - $1::interval THEN 2 END AS rank
      FROM {schema}.every_partition p
      LEFT JOIN {schema}.census c ON c.part = p.part AND c.counted_at <= now()
     WHERE p.parent IN ('events_history', 'receipts') AND NOT p.pending AND p.high <= now() - interval '1 hour'
       AND p.high > (SELECT min(d.day) FROM {schema}.statement_days d)::timestamp AT TIME ZONE 'UTC'
)
SELECT d.parent, d.part, d.low, d.high,
       coalesce(pg_relation_size(d.oid), 0) / current_setting('block_size')::bigint AS pages, true AS over
  FROM days d
 WHERE d.rank IS NOT NULL
   AND NOT EXISTS (SELECT FROM pg_locks l
                    WHERE l.relation = d.oid AND l.mode = 'RowExclusiveLock' AND l.granted
                      AND l.database = (SELECT o.oid FROM pg_database o WHERE o.datname = current_database()))
 ORDER BY d.rank, d.counted_at NULLS FIRST, d.low LIMIT $2
