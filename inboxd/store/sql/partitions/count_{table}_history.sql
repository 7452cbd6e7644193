-- The number of rows that ended in a span.
-- parameters: $1 timestamptz from, $2 timestamptz to (exclusive)
-- returns: bigint
-- locks: nothing
SELECT count(*) FROM {schema}.{table}_history WHERE finished_at >= $1 AND finished_at < $2
