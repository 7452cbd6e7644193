-- Copy receipts of a range whose events are not settled yet; and forget older copies whose events have been.
-- parameters: $1 timestamptz from, $2 timestamptz to (exclusive)
-- returns: how many were copied
-- locks: the copies
SELECT {schema}.keep_receipts($1, $2)
