-- How many settled rows finished days have.
-- parameters: $1 text parent
-- returns: succeeded, failed, cancelled, dismissed, untold (0: all are told)
-- locks: nothing
SELECT coalesce(sum(succeeded), 0)::bigint AS succeeded, coalesce(sum(failed), 0)::bigint AS failed,
       coalesce(sum(cancelled), 0)::bigint AS cancelled, coalesce(sum(dismissed), 0)::bigint AS dismissed,
       0::bigint AS untold
  FROM {schema}.census WHERE parent = $1::text AND counted_at IS NOT NULL
