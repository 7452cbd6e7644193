-- Emit the events of some lines of a file, by the producers' function.
-- parameters: $1 text (a JSON array of objects)
-- returns: the numbers of written events, of duplicates, and of conflicts (dead letters, since another has their dedup key)
-- locks: the new rows
SELECT count(*) FILTER (WHERE NOT duplicate) AS written, count(*) FILTER (WHERE duplicate) AS duplicates,
       count(*) FILTER (WHERE conflict) AS conflicts
  FROM {schema}.emit_events($1::text::jsonb)
