-- An action on many rows goes on: its line in the audit counts them all, in the transaction of each page.
-- parameters: $1 bigint id of the line, $2 bigint rows more
-- returns: nothing
-- locks: the line
UPDATE {schema}.audit SET count = count + $2 WHERE id = $1
