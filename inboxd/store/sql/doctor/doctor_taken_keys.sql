-- Unique keys of commands that are due far in the future: until then no other command with such a key is written.
-- parameters: $1 integer: the most keys to look at, in their order; $2 interval: how far in the future
-- returns: type, count, unique_key (one of them), due (of that one)
-- locks: nothing
SELECT type, count(*) AS count, (array_agg(unique_key ORDER BY unique_key))[1] AS unique_key,
       (array_agg(run_at ORDER BY unique_key))[1] AS due
  FROM (SELECT type, unique_key, run_at FROM {schema}.commands
         WHERE unique_key IS NOT NULL AND status <> 'failed' ORDER BY type, unique_key LIMIT $1) AS looked
 WHERE run_at > now() + $2::interval
 GROUP BY type ORDER BY type
