-- Erase what receipts say: body, headers, address. Who sent them, when, and which events they brought stays.
-- parameters: $1 uuid[] receipts
-- returns: nothing
-- locks: the rows
SELECT FROM {schema}.erase_receipts($1::uuid[])
