-- The number of settled rows of finished days.
-- parameters: $1 text parent
-- returns: succeeded, failed, cancelled, dismissed, untold (always 0)
-- locks: briefly, as every reader
-- Removed days, and counts from the future, are left out; the partitions are read once.
WITH counted AS MATERIALIZED (
    SELECT c.* FROM {schema}.census c
     WHERE c.parent = $1::text AND c.counted_at <= now()
       AND c.part = ANY (ARRAY(SELECT p.part FROM {schema}.partitions p WHERE p.parent = $1::text AND NOT p.pending))
)
SELECT coalesce(sum(succeeded), 0)::bigint AS succeeded, coalesce(sum(failed), 0)::bigint AS failed,
       coalesce(sum(cancelled), 0)::bigint AS cancelled, coalesce(sum(dismissed), 0)::bigint AS dismissed,
       0::bigint AS untold
  FROM counted
