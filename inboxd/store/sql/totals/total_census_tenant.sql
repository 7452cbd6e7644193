-- How many settled rows of a tenant finished days have.
-- parameters: $1 text parent, $2 text tenant, $3 text type (null: any)
-- returns: succeeded, failed, cancelled, dismissed; untold: rows of tenants that were not told apart, among which there may be more
-- locks: nothing
SELECT coalesce(sum(t.rows) FILTER (WHERE t.status = 'succeeded'), 0)::bigint AS succeeded,
       coalesce(sum(t.rows) FILTER (WHERE t.status = 'failed'), 0)::bigint AS failed,
       coalesce(sum(t.rows) FILTER (WHERE t.status = 'cancelled'), 0)::bigint AS cancelled,
       coalesce(sum(t.rows) FILTER (WHERE t.status = 'dismissed'), 0)::bigint AS dismissed,
       (SELECT coalesce(sum(tenants_left), 0)::bigint FROM {schema}.census
         WHERE parent = $1::text AND counted_at IS NOT NULL) AS untold
  FROM {schema}.census_tenants t
 WHERE t.tenant = $2::text AND t.parent = $1::text AND (t.type = $3::text) IS NOT FALSE
