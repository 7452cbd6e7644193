-- The number of a type's settled rows of finished days.
-- parameters: $1 text parent, $2 text type
-- returns: succeeded, failed, cancelled, dismissed; untold: rows of types without a count of their own; some may match
-- locks: briefly, as every reader
-- Removed days, and counts from the future, are left out; the partitions are read once.
-- Rows are found by the type, not by their days, which have all other types too.
WITH counted AS MATERIALIZED (
    SELECT c.* FROM {schema}.census c
     WHERE c.parent = $1::text AND c.counted_at <= now()
       AND c.part = ANY (ARRAY(SELECT p.part FROM {schema}.partitions p WHERE p.parent = $1::text AND NOT p.pending))
)
SELECT coalesce(sum(t.rows) FILTER (WHERE t.status = 'succeeded'), 0)::bigint AS succeeded,
       coalesce(sum(t.rows) FILTER (WHERE t.status = 'failed'), 0)::bigint AS failed,
       coalesce(sum(t.rows) FILTER (WHERE t.status = 'cancelled'), 0)::bigint AS cancelled,
       coalesce(sum(t.rows) FILTER (WHERE t.status = 'dismissed'), 0)::bigint AS dismissed,
       (SELECT coalesce(sum(c.types_left), 0)::bigint FROM counted c) AS untold
  FROM (SELECT o.* FROM {schema}.census_types o WHERE o.type = $2::text AND o.parent = $1::text OFFSET 0) t
  JOIN counted c ON c.part = t.part
