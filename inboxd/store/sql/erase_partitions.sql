-- The partitions of a history, the oldest first, with their present size.
-- parameters: $1 text the history's name
-- returns: name, lower and upper (bounds of finished_at), pages
-- locks: briefly, as every reader
SELECT c.relname AS name, bounds[1]::timestamptz AS lower, bounds[2]::timestamptz AS upper,
       pg_relation_size(c.oid) / current_setting('block_size')::bigint AS pages
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
 CROSS JOIN LATERAL regexp_match(pg_get_expr(c.relpartbound, c.oid), $$FROM \('([^']+)'\) TO \('([^']+)'\)$$) bounds
 WHERE i.inhparent = to_regclass(format('{schema}.%I', $1::text)) ORDER BY 2
