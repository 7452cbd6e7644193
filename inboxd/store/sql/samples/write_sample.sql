-- Write a sample, unless a newer one exists, or one that is hardly older: two leaders do no harm. After the clock was set
-- back, samples from its future are deleted.
-- parameters: $1 timestamptz at, $2 interval by which it must be newer, $3 jsonb counts in full,
--             $4 jsonb totals: an object with the columns of samples
-- returns: of_minute (it is the first of its minute); no row: it was not written
-- locks: the row of the newest sample
WITH newest AS (
    INSERT INTO {schema}.newest_sample AS known (at, counts) VALUES ($1::timestamptz, $3::jsonb)
    ON CONFLICT (id) DO UPDATE SET at = excluded.at, counts = excluded.counts
     WHERE known.at <= excluded.at - $2::interval OR known.at > clock_timestamp()
    RETURNING known.at
), ahead AS (
    DELETE FROM {schema}.samples future USING newest WHERE future.at > newest.at
)
INSERT INTO {schema}.samples
       (at, events_written, commands_written, events_waiting, events_paused, events_kept, events_failed, events_running,
        events_oldest, commands_waiting, commands_paused, commands_failed, commands_running, commands_oldest, suspects,
        blocked_keys, blocked_lines, held_topics, held_receipts, workers, of_minute)
SELECT newest.at, t.events_written, t.commands_written, t.events_waiting, t.events_paused, t.events_kept, t.events_failed,
       t.events_running, t.events_oldest, t.commands_waiting, t.commands_paused, t.commands_failed, t.commands_running,
       t.commands_oldest, t.suspects, t.blocked_keys, t.blocked_lines, t.held_topics, t.held_receipts, t.workers,
       NOT EXISTS (SELECT FROM {schema}.samples s WHERE s.at >= date_trunc('minute', newest.at) AND s.at < newest.at)
  FROM newest
 CROSS JOIN jsonb_populate_record(NULL::{schema}.samples, $4::jsonb) t
ON CONFLICT (at) DO NOTHING
RETURNING of_minute
