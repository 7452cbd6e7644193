-- Delete the counts of partitions that no longer exist, and counts that began or ended in the future: the clock was set back
-- since, so a day that was finished then may get rows again.
-- parameters: none
-- returns: nothing
-- locks: the rows
DELETE FROM {schema}.census c
 WHERE NOT EXISTS (SELECT FROM {schema}.every_partition p WHERE p.part = c.part AND NOT p.pending)
    OR greatest(c.begun_at, c.counted_at) > clock_timestamp()
