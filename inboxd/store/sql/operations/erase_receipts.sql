-- Erase the contents of receipts: body, headers, address. Source, time and event ids stay.
-- parameters: $1 uuid[] receipts
-- returns: nothing
-- locks: the rows
SELECT FROM {schema}.erase_receipts($1::uuid[])
