-- The number of coming days for which history, bodies and receipts have partitions, today counting as 0; -1: none for
-- today. A table with such a name that is detached, or whose detach has begun, accepts no rows and does not count.
-- parameters: none
-- returns: integer, the least of the four tables
-- locks: nothing
SELECT min(days)::integer FROM (
    SELECT coalesce(min(day) FILTER (WHERE NOT EXISTS (
               SELECT FROM pg_inherits i
                WHERE i.inhrelid = to_regclass('{schema}.' || parent || to_char(
                          (now() AT TIME ZONE 'UTC')::date + day, '_YYYYMMDD'))
                  AND i.inhparent = to_regclass('{schema}.' || parent) AND NOT i.inhdetachpending)), 400) - 1 AS days
      FROM unnest(ARRAY['bodies', 'events_history', 'commands_history', 'receipts']) AS parent
     CROSS JOIN generate_series(0, 399) AS day
     GROUP BY parent) AS ahead
