-- The progress of a file's import; a new import is begun.
-- parameters: $1 text kind (event, command), $2 text name
-- returns: lines, written, broken, finished_at
-- locks: the import's row, if it is new
SELECT lines, written, broken, finished_at FROM {schema}.open_import($1, $2)
