-- Count new names together, as `(other)`, on a day that has $2 series: producers name topics and types, and a series is
-- kept for as long as its counts. A name is a topic or queue with a type; a declared type is replaced only in its lane.
-- parameters: $1 bigint[] ids of rows that workers wrote, $2 integer series
-- returns: nothing
-- locks: the rows, which the transaction holds
WITH named AS MATERIALIZED (
    SELECT DISTINCT date_trunc('day', w.minute, 'UTC') AS day, w.kind, w.lane, w.type
      FROM {schema}.stats_written w WHERE w.id = ANY ($1::bigint[])
), new AS MATERIALIZED (
    SELECT n.*, row_number() OVER (PARTITION BY n.day ORDER BY n.kind, n.lane, n.type) AS place
      FROM named n
     WHERE NOT EXISTS (SELECT FROM {schema}.stats_series s
                        WHERE (s.type, s.kind, s.lane) = (n.type, n.kind, n.lane) OFFSET 0)
), days AS MATERIALIZED (
    SELECT day, (SELECT count(*) FROM {schema}.stats_days d WHERE d.at AT TIME ZONE 'UTC' = day AT TIME ZONE 'UTC') AS series
      FROM (SELECT DISTINCT day FROM new) AS each
)
UPDATE {schema}.stats_written w
   SET lane = '(other)',
       type = CASE WHEN EXISTS (SELECT FROM {schema}.declared_types d WHERE (d.kind, d.type) = (w.kind, w.type) OFFSET 0)
                   THEN w.type ELSE '(other)' END
  FROM new JOIN days USING (day)
 WHERE w.id = ANY ($1::bigint[]) AND new.place > $2 - days.series
   AND (w.kind, w.lane, w.type) = (new.kind, new.lane, new.type) AND date_trunc('day', w.minute, 'UTC') = new.day
