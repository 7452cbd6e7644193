-- The partitions of history without a census, or with one from the future, oldest first; without those of days that have
-- not begun.
-- parameters: none
-- returns: parent, part, low, high (its range), pages, over (whether its day ended more than an hour ago, and no
--          transaction that is open, or prepared, has written to it: it gets no more rows)
-- locks: briefly, as every reader
SELECT p.parent, p.part, p.low, p.high, coalesce(pg_relation_size(p.oid), 0) / current_setting('block_size')::bigint AS pages,
       p.high <= now() - interval '1 hour'
       AND NOT EXISTS (SELECT FROM pg_locks l
                        WHERE l.relation = p.oid AND l.mode = 'RowExclusiveLock' AND l.granted
                          AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
                       ) AS over
  FROM {schema}.partitions p
  LEFT JOIN {schema}.census c ON c.part = p.part AND c.counted_at <= now()
 WHERE p.parent IN ('events_history', 'commands_history') AND p.low <= now() AND NOT p.pending AND c.part IS NULL
 ORDER BY p.low, p.part
