-- Record the days that ended at least an hour ago, since the last recorded one; at first only yesterday. An open day whose
-- horizon is above this server's transaction ids is recorded again: a backup was restored since.
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
