-- How far the import of a file has come; it begins one that nobody has begun.
-- parameters: $1 text kind (event, command), $2 text name
-- returns: lines, written, broken, finished_at
-- locks: the import's row, if it is new
SELECT lines, written, broken, finished_at FROM {schema}.open_import($1, $2)
