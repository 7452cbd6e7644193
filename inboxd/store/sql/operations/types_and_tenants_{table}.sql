-- How some rows spread over types and tenants.
-- parameters: $1 bigint[] ids, $2 integer pairs of a type and a tenant to return, the largest first
-- returns: type, tenant, count
-- locks: nothing
SELECT type, tenant, count(*) AS count FROM {schema}.{table}
 WHERE id = ANY ($1::bigint[]) GROUP BY type, tenant ORDER BY count(*) DESC, type, tenant LIMIT $2
