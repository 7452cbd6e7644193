-- Send the commands of some lines of a file, by the function that producers use.
-- parameters: $1 text (a JSON array of objects)
-- returns: how many were written, and how many are duplicates
-- locks: the new rows, and what resolve_unique_keys locks
SELECT count(*) FILTER (WHERE NOT duplicate) AS written, count(*) FILTER (WHERE duplicate) AS duplicates
  FROM {schema}.send_commands($1::text::jsonb)
