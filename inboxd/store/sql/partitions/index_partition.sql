-- Make one index of a partition of a finished day.
-- parameters: $1 text part, $2 text type, tenant or entity
-- returns: whether it was made
-- locks: the partition, against writers
SELECT {schema}.index_partition($1, $2)
