-- Add rows that older code has written to `stats`, newest first. Executions that followed a failure, which that code
-- counted in two rows, are moved: added to the one, and subtracted from the other.
-- parameters: $1 integer rows
-- returns: how many were taken over
-- locks: the rows; an older worker that adds to one waits, and inserts it again
WITH gone AS (
    DELETE FROM {schema}.stats
     WHERE ctid = ANY (ARRAY(SELECT old.ctid FROM {schema}.stats old ORDER BY old.minute DESC LIMIT $1))
    RETURNING minute, kind, type, outcome, count, total, maximum
), apart AS (
    SELECT gone.*, split_part(outcome, ' after ', 1) AS done, split_part(outcome, ' after ', 2) AS follows FROM gone
), told AS (
    INSERT INTO {schema}.stats_written (minute, kind, lane, type, outcome, after, count,
           run_total, run_maximum, completion_total, completion_maximum)
    SELECT minute, kind, '', type, CASE done WHEN 'completed' THEN 'succeeded' ELSE done END, moved.after, moved.count,
           CASE WHEN follows = '' AND done <> 'completed' THEN total END,
           CASE WHEN follows = '' AND done <> 'completed' THEN maximum END,
           CASE WHEN done = 'completed' THEN total END, CASE WHEN done = 'completed' THEN maximum END
      FROM apart
     CROSS JOIN LATERAL (
         SELECT follows, CASE done WHEN 'completed' THEN 0 ELSE apart.count END
          UNION ALL
         SELECT '', -apart.count WHERE follows <> '') AS moved(after, count)
)
SELECT count(*) FROM gone
