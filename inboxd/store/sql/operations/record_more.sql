-- Add the rows of one page of a bulk action to its audit entry, in the page's transaction.
-- parameters: $1 bigint id of the entry, $2 bigint further rows
-- returns: nothing
-- locks: the entry
UPDATE {schema}.audit SET count = count + $2 WHERE id = $1
