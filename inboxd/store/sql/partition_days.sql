-- How many days ahead history and bodies have partitions, today counting as 0; -1: none for today.
-- parameters: none
-- returns: integer, the least of the three tables
-- locks: nothing
SELECT min(days)::integer FROM (
    SELECT coalesce(min(day) FILTER (WHERE to_regclass('{schema}.' || parent || to_char(
               (now() AT TIME ZONE 'UTC')::date + day, '_YYYYMMDD')) IS NULL), 400) - 1 AS days
      FROM unnest(ARRAY['bodies', 'events_history', 'commands_history']) AS parent
     CROSS JOIN generate_series(0, 399) AS day
     GROUP BY parent) AS ahead
