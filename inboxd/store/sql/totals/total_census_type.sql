-- How many settled rows of a type finished days have.
-- parameters: $1 text parent, $2 text type
-- returns: succeeded, failed, cancelled, dismissed; untold: rows of types that were not told apart, among which there may be more
-- locks: nothing
SELECT coalesce(sum(t.rows) FILTER (WHERE t.status = 'succeeded'), 0)::bigint AS succeeded,
       coalesce(sum(t.rows) FILTER (WHERE t.status = 'failed'), 0)::bigint AS failed,
       coalesce(sum(t.rows) FILTER (WHERE t.status = 'cancelled'), 0)::bigint AS cancelled,
       coalesce(sum(t.rows) FILTER (WHERE t.status = 'dismissed'), 0)::bigint AS dismissed,
       (SELECT coalesce(sum(types_left), 0)::bigint FROM {schema}.census
         WHERE parent = $1::text AND counted_at IS NOT NULL) AS untold
  FROM {schema}.census_types t WHERE t.type = $2::text AND t.parent = $1::text
