-- Make the partitions for receipts that have none.
-- parameters: $1 uuid[] their ids
-- returns: integer, how many were made
-- locks: the new tables; their parent, without blocking readers or writers; other sessions that make them
SELECT {schema}.make_receipt_days($1::uuid[])
