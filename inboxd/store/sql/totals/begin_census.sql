-- Begin to count a partition, or say that what it has is to be counted again: what was counted of it is forgotten.
-- parameters: $1 text part, $2 text its parent
-- returns: begun_at, by which end_census knows whether this is the last one that began
-- locks: the row of the partition, and what was counted of it
SELECT {schema}.begin_census($1, $2)
