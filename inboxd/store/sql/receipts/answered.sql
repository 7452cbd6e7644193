-- What was answered to receipts that are there already.
-- parameters: $1 uuid[] ids
-- returns: receipt_id, event_ids, outcome; no row for one that is not there
-- locks: nothing
SELECT receipt_id, event_ids, outcome FROM {schema}.answered($1::uuid[])
