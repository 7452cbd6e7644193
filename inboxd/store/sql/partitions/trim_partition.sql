-- Delete rows of some types from $4 pages of a partition.
-- parameters: $1 text part, $2 text[] types, $3 bigint first page, $4 integer pages
-- returns: how many were deleted
-- locks: the rows
SELECT {schema}.trim_partition($1, $2::text[], $3, $4)
