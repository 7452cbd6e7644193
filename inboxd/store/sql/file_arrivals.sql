-- Give arrivals of a batch topic their places at the ends of their lines, each with its own due time as
-- run_at, so that whichever becomes the head says by itself when its list is due.
-- parameters: $1 text topic, $2 smallint bucket, $3 bigint cursor, $4 bigint bound, $5 integer rows,
--             $6 interval after which an event's list is due, $7 timestamptz[] ends of periods, ascending
--             (none: there are no periods); rows behind the last one are left for the next time
-- returns: ordering_key of each line that has grown, rows (how many of all lines), last (the largest id)
-- locks: the rows; the caller has the bucket since an earlier statement
WITH arrived AS MATERIALIZED (
    SELECT e.id, e.ordering_key, e.created_at FROM {schema}.events e
     WHERE e.topic = $1 AND e.bucket = $2 AND e.status = 'waiting' AND e.place IS NULL
       AND e.id > $3 AND e.id <= $4
     ORDER BY e.id LIMIT $5
), first_beyond AS (
    SELECT min(id) AS id FROM arrived WHERE cardinality($7::timestamptz[]) > 0
       AND created_at >= ($7::timestamptz[])[cardinality($7::timestamptz[])]
), line AS MATERIALIZED (
    SELECT grown.ordering_key, coalesce(filed.place, 0) AS place
      FROM (SELECT DISTINCT ordering_key FROM arrived) grown
      LEFT JOIN LATERAL (
         SELECT l.place FROM {schema}.events l
          WHERE l.place IS NOT NULL AND l.topic = $1 AND l.ordering_key = grown.ordering_key
          ORDER BY l.place DESC LIMIT 1) filed ON true
), placed AS MATERIALIZED (
    SELECT a.id, line.place, row_number() OVER (PARTITION BY a.ordering_key ORDER BY a.id) AS n,
           least(a.created_at + $6::interval,
                 (SELECT min(t.ends_at) FROM unnest($7::timestamptz[]) AS t(ends_at) WHERE t.ends_at > a.created_at)) AS due_at
      FROM arrived a JOIN line USING (ordering_key)
     WHERE a.id < coalesce((SELECT id FROM first_beyond), 9223372036854775807)
), filed AS (
    UPDATE {schema}.events e
       SET place = placed.place + placed.n, head = placed.place = 0 AND placed.n = 1, run_at = placed.due_at
      FROM placed WHERE e.id = placed.id
    RETURNING e.ordering_key, e.id
)
SELECT ordering_key, (sum(count(*)) OVER ())::integer AS rows, max(max(id)) OVER () AS last
  FROM filed GROUP BY ordering_key
