-- Record the progress of a file's import, in the transaction that writes its lines.
-- parameters: $1 text kind (event, command), $2 text name, $3 bigint the line it is at, $4 bigint the line it comes to,
--             $5 bigint new rows, $6 bigint lines left out, $7 boolean whether the file ends there
-- returns: whether it was at that line
-- locks: the import's row
SELECT {schema}.advance_import($1, $2, $3, $4, $5, $6, $7)
