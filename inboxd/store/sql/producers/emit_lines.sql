-- Emit the events of some lines of a file, by the function that producers use.
-- parameters: $1 text (a JSON array of objects)
-- returns: how many were written, how many are duplicates, and conflicts (dead letters, as their dedup key is another's)
-- locks: the new rows
SELECT count(*) FILTER (WHERE NOT duplicate) AS written, count(*) FILTER (WHERE duplicate) AS duplicates,
       count(*) FILTER (WHERE conflict) AS conflicts
  FROM {schema}.emit_events($1::text::jsonb)
