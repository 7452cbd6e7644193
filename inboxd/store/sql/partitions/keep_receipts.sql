-- Copy receipts of a range whose events are not settled yet, and delete older copies whose events are settled.
-- parameters: $1 timestamptz from, $2 timestamptz to (exclusive)
-- returns: the number of copied receipts
-- locks: the copies
SELECT {schema}.keep_receipts($1, $2)
