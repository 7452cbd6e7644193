-- The counts of all workers in a span of {resolution}, including those that are not rolled up yet. For one type,
-- they are found by its series; for all types, by their time, in the order in which they are stored: each of the two
-- has its index.
-- parameters: $1 timestamptz from, $2 timestamptz to (exclusive), $3 text kind, $4 text lane, $5 text type
--             (each null: all), $6 text[] the columns to group by (at, kind, lane, type); counts are summed over the others
-- returns: at, kind, lane, type (each null if it is not grouped by), outcome, after, {statistics}; values that were
--          not measured are null
-- locks: nothing
-- The names of series are read once: a lookup per row would cost more than everything else.
-- They are filtered after the join: before it, the planner would expect next to no rows, and compare each row with each
-- name.
WITH names AS MATERIALIZED (SELECT * FROM {schema}.stats_series), counted AS (
    SELECT s.kind, s.lane, s.type, s.outcome, s.after, one.at, {statistics}
      FROM {schema}.stats_series s
     CROSS JOIN LATERAL (
         SELECT * FROM {schema}.stats_{resolution} r
          WHERE (r.series, r.at) >= (s.id, $1::timestamptz) AND (r.series, r.at) < (s.id, $2::timestamptz)
         OFFSET 0) AS one
     WHERE $5::text IS NOT NULL AND s.type = $5 AND (s.kind = $3::text) IS NOT FALSE AND (s.lane = $4::text) IS NOT FALSE
    UNION ALL
    SELECT named.kind, named.lane, named.type, named.outcome, named.after, named.at, {statistics}
      FROM (SELECT * FROM (SELECT * FROM {schema}.stats_{resolution} r
                            WHERE r.at AT TIME ZONE 'UTC' >= $1::timestamptz AT TIME ZONE 'UTC'
                              AND r.at AT TIME ZONE 'UTC' < $2::timestamptz AT TIME ZONE 'UTC'
                           OFFSET 0) AS every
              JOIN names ON names.id = every.series
            OFFSET 0) AS named
     WHERE $5::text IS NULL AND (named.kind = $3::text) IS NOT FALSE AND (named.lane = $4::text) IS NOT FALSE
    UNION ALL
    SELECT w.kind, w.lane, w.type, w.outcome, w.after, date_trunc('{unit}', w.minute, 'UTC'), {statistics}
      FROM {schema}.stats_written w
     WHERE w.minute >= $1::timestamptz AND w.minute < $2::timestamptz
       AND (w.kind = $3::text) IS NOT FALSE AND (w.lane = $4::text) IS NOT FALSE AND (w.type = $5::text) IS NOT FALSE
)
SELECT CASE WHEN 'at' = ANY ($6::text[]) THEN at END AS at, CASE WHEN 'kind' = ANY ($6::text[]) THEN kind END AS kind,
       CASE WHEN 'lane' = ANY ($6::text[]) THEN lane END AS lane,
       CASE WHEN 'type' = ANY ($6::text[]) THEN type END AS type, outcome, after, {statistics summed and named}
  FROM counted
 GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 1, 2, 3, 4, 5, 6
