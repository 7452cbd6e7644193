-- The buckets of lines that these events are in.
-- parameters: $1 bigint[] ids
-- returns: topic, bucket
-- locks: nothing
SELECT DISTINCT topic, bucket FROM {schema}.events WHERE id = ANY ($1::bigint[]) AND mode <> 'single'
