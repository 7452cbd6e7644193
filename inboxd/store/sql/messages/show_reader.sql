-- Report the state of a source of messages that a worker reads, or would read.
-- parameters: $1 text source, $2 uuid worker, $3 text broker, $4 text state (reading, standby, paused, away, failing, lost),
--             $5 text why it does not read (null: it does), $6 bigint lag (null: not known)
-- returns: nothing
-- locks: its row
INSERT INTO {schema}.message_readers AS r (source, worker_id, broker, state, trouble, lag)
VALUES ($1, $2::uuid, $3, $4, $5, $6)
ON CONFLICT (source, worker_id) DO UPDATE
   SET broker = excluded.broker, state = excluded.state, trouble = excluded.trouble, lag = excluded.lag,
       shown_at = excluded.shown_at,
       since = CASE WHEN r.state = excluded.state THEN r.since ELSE excluded.since END
