-- Send the commands of some lines of a file, by the producers' function.
-- parameters: $1 text (a JSON array of objects)
-- returns: the numbers of written commands and of duplicates
-- locks: the new rows, and what resolve_unique_keys locks
SELECT count(*) FILTER (WHERE NOT duplicate) AS written, count(*) FILTER (WHERE duplicate) AS duplicates
  FROM {schema}.send_commands($1::text::jsonb)
