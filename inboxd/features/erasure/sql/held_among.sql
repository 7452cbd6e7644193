-- The number of these receipts whose events are held.
-- parameters: $1 uuid[] receipts
-- returns: bigint
-- locks: nothing
SELECT count(*) FROM {schema}.held_receipts h WHERE h.receipt_id = ANY ($1::uuid[])
