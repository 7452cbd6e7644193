-- Erase what receipts say: body, headers, address. Who sent them, when, and which events they brought stays.
-- parameters: $1 uuid[] receipts
-- returns: nothing
-- locks: the rows
WITH copies AS (
    UPDATE {schema}.kept_receipts r SET body = NULL, headers = NULL, address = NULL
     WHERE r.receipt_id = ANY ($1::uuid[])
)
UPDATE {schema}.receipts r SET body = NULL, headers = NULL, address = NULL
  FROM unnest($1::uuid[]) AS given(id)
 WHERE r.received_at = {schema}.receipt_time(given.id) AND r.receipt_id = given.id
