-- The numbers of executions in a span, step by step: of events and of commands, and of the named lanes and types. The
-- other lanes and types are one row each, without a name.
-- parameters: $1 timestamptz from, $2 timestamptz to (exclusive), $3 text[] kinds and $4 text[] names of lanes,
--             $5 text[] kinds and $6 text[] names of types
-- returns: at, kind, what (kind, lane or type), name (null: of the kind; and the others), executions, ended (those of
--          them that ended their row)
-- locks: nothing
WITH lane(kind, name) AS MATERIALIZED (SELECT * FROM unnest($3::text[], $4::text[])),
     type(kind, name) AS MATERIALIZED (SELECT * FROM unnest($5::text[], $6::text[])),
     names AS MATERIALIZED (SELECT * FROM {schema}.stats_series),
     counted AS (
    SELECT s.kind, s.lane, s.type, s.outcome, its.at, its.count
      FROM (SELECT r.at, r.series, r.count FROM {schema}.stats_{resolution} r
             WHERE r.at AT TIME ZONE 'UTC' >= $1::timestamptz AT TIME ZONE 'UTC'
               AND r.at AT TIME ZONE 'UTC' < $2::timestamptz AT TIME ZONE 'UTC'
            OFFSET 0) AS its
      JOIN names s ON s.id = its.series
    UNION ALL
    SELECT w.kind, w.lane, w.type, w.outcome, date_trunc('{unit}', w.minute, 'UTC'), w.count
      FROM {schema}.stats_written w
     WHERE w.minute >= $1::timestamptz AND w.minute < $2::timestamptz
), named AS (
    SELECT c.at, c.kind, lane.name AS lane, type.name AS type, c.outcome, c.count
      FROM counted c
      LEFT JOIN lane ON (lane.kind, lane.name) = (c.kind, c.lane)
      LEFT JOIN type ON (type.kind, type.name) = (c.kind, c.type)
     WHERE c.outcome NOT IN ('ignored', 'duplicate')
)
SELECT at, kind, CASE grouping(lane, type) WHEN 1 THEN 'lane' WHEN 2 THEN 'type' ELSE 'kind' END AS what,
       coalesce(lane, type) AS name, sum(count)::bigint AS executions,
       coalesce(sum(count) FILTER (WHERE outcome IN ('succeeded', 'failed', 'cancelled')), 0)::bigint AS ended
  FROM named
 GROUP BY GROUPING SETS ((at, kind), (at, kind, lane), (at, kind, type)) ORDER BY 1, 2, 3, 4
