-- Note the days that are over, for an hour, since the last one that was noted; at the first time, yesterday. A day whose transactions are
-- of another server's counting is noted anew: a backup was restored since.
-- parameters: none
-- returns: nothing
-- locks: the new rows
WITH today AS (SELECT ((now() - interval '1 hour') AT TIME ZONE 'UTC')::date AS day), anew AS (
    UPDATE {schema}.statement_days SET seen_at = clock_timestamp(), horizon = pg_snapshot_xmax(pg_current_snapshot())
     WHERE closed_at IS NULL AND horizon > pg_snapshot_xmax(pg_current_snapshot())
)
INSERT INTO {schema}.statement_days (day)
SELECT ended::date
  FROM today, generate_series(coalesce((SELECT max(d.day) + 1 FROM {schema}.statement_days d), today.day - 1)::timestamp,
                              (today.day - 1)::timestamp, interval '1 day') AS ended
ON CONFLICT DO NOTHING
