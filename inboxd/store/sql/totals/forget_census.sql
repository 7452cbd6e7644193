-- Forget what was counted of partitions that are not there any more, and what was counted in the future: the clock has
-- been set back since, so the day that was over then may get rows again.
-- parameters: none
-- returns: nothing
-- locks: the rows
DELETE FROM {schema}.census c
 WHERE NOT EXISTS (SELECT FROM {schema}.every_partition p WHERE p.part = c.part AND NOT p.pending)
    OR c.counted_at > clock_timestamp()
