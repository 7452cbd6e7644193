-- Begin to count a partition, or say that what it has is to be counted again.
-- parameters: $1 text part, $2 text its parent
-- returns: begun_at, by which end_census knows whether this is the last one that began
-- locks: the row of the partition
INSERT INTO {schema}.census (part, parent) VALUES ($1::text, $2::text)
ON CONFLICT (part) DO UPDATE SET begun_at = clock_timestamp(), counted_at = NULL
RETURNING begun_at
