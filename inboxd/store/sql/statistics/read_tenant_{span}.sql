-- The counts of one tenant in a span of {span}: as read_{span}, but found by the tenant.
-- parameters: $1 text tenant, $2 timestamptz from, $3 timestamptz to (exclusive), $4 text kind, $5 text lane,
--             $6 text type (each null: all), $7 text[] the columns to group by (at, kind, lane, type)
-- returns: at, kind, lane, type (each null if it is not grouped by), outcome, after, {statistics}
-- locks: nothing
-- The names of series are read once: a lookup per row would cost more than everything else.
-- They are filtered after the join: before it, the planner would expect next to no rows, and compare each row with each
-- name.
WITH names AS MATERIALIZED (SELECT * FROM {schema}.stats_series), counted AS (
    SELECT named.kind, named.lane, named.type, named.outcome, named.after, named.at, {statistics}
      FROM (SELECT * FROM (SELECT * FROM {schema}.stats_tenant_{span} r
                            WHERE (r.tenant, r.at, r.series) >= ($1::text, $2::timestamptz, 0)
                              AND (r.tenant, r.at, r.series) < ($1::text, $3::timestamptz, 0)
                           OFFSET 0) AS its
              JOIN names ON names.id = its.series
            OFFSET 0) AS named
     WHERE (named.kind = $4::text) IS NOT FALSE AND (named.lane = $5::text) IS NOT FALSE
       AND (named.type = $6::text) IS NOT FALSE
    UNION ALL
    SELECT w.kind, w.lane, w.type, w.outcome, w.after, date_trunc('{unit}', w.minute, 'UTC'), {statistics}
      FROM {schema}.stats_written w
     WHERE w.minute >= $2::timestamptz AND w.minute < $3::timestamptz AND w.tenant = $1::text
       AND (w.kind = $4::text) IS NOT FALSE AND (w.lane = $5::text) IS NOT FALSE AND (w.type = $6::text) IS NOT FALSE
)
SELECT CASE WHEN 'at' = ANY ($7::text[]) THEN at END AS at, CASE WHEN 'kind' = ANY ($7::text[]) THEN kind END AS kind,
       CASE WHEN 'lane' = ANY ($7::text[]) THEN lane END AS lane,
       CASE WHEN 'type' = ANY ($7::text[]) THEN type END AS type, outcome, after, {statistics summed and named}
  FROM counted
 GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 1, 2, 3, 4, 5, 6
