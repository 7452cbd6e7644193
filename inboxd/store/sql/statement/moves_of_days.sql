-- By how many rows events became more or fewer when they went to other topics.
-- parameters: none
-- returns: day, source, rows
-- locks: nothing
SELECT day, source, rows FROM {schema}.statement_moves
