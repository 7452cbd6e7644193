-- Samples over time, combined into steps; steps without a sample are left out.
-- parameters: $1 timestamptz since, $2 timestamptz until (exclusive), $3 interval of a step
-- returns: at (the beginning of the step); seconds (from the last sample of the step before to the last of this one;
--          null: it is the first sample); events_arrived and commands_arrived (in these seconds); the largest values
--          in the step of events_ and commands_ waiting, paused, failed, running, oldest; events_kept, suspects,
--          blocked_keys, blocked_lines, held_topics, held_receipts; and the smallest value of workers
-- locks: nothing
WITH step AS (
    SELECT date_bin($3::interval, s.at, $1::timestamptz) AS begins, max(s.at) AS last,
           max(s.events_written) AS events_written, max(s.commands_written) AS commands_written,
           max(s.events_waiting) AS events_waiting, max(s.events_paused) AS events_paused,
           max(s.events_kept) AS events_kept, max(s.events_failed) AS events_failed,
           max(s.events_running) AS events_running, max(s.events_oldest) AS events_oldest,
           max(s.commands_waiting) AS commands_waiting, max(s.commands_paused) AS commands_paused,
           max(s.commands_failed) AS commands_failed, max(s.commands_running) AS commands_running,
           max(s.commands_oldest) AS commands_oldest, max(s.suspects) AS suspects, max(s.blocked_keys) AS blocked_keys,
           max(s.blocked_lines) AS blocked_lines, max(s.held_topics) AS held_topics,
           max(s.held_receipts) AS held_receipts, min(s.workers) AS workers
      FROM {schema}.samples s
     WHERE s.at >= $1::timestamptz AND s.at < $2::timestamptz
     GROUP BY 1
), before(last, events_written, commands_written) AS (
    SELECT b.at, b.events_written, b.commands_written
      FROM {schema}.samples b WHERE b.at < $1::timestamptz ORDER BY b.at DESC LIMIT 1
), known AS (  -- a step and the one before it
    SELECT step.*,
           coalesce(lag(step.last) OVER steps, (SELECT last FROM before)) AS last_before,
           coalesce(lag(step.events_written) OVER steps, (SELECT events_written FROM before)) AS events_before,
           coalesce(lag(step.commands_written) OVER steps, (SELECT commands_written FROM before)) AS commands_before
      FROM step WINDOW steps AS (ORDER BY step.begins)
)
SELECT begins AS at, extract(epoch FROM last - last_before)::double precision AS seconds,
       CASE WHEN last_before IS NOT NULL THEN greatest(events_written - events_before, 0) END AS events_arrived,
       CASE WHEN last_before IS NOT NULL THEN greatest(commands_written - commands_before, 0) END AS commands_arrived,
       events_waiting, events_paused, events_kept, events_failed, events_running, events_oldest,
       commands_waiting, commands_paused, commands_failed, commands_running, commands_oldest,
       suspects, blocked_keys, blocked_lines, held_topics, held_receipts, workers
  FROM known ORDER BY begins
