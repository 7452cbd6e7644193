-- What was answered to receipts that are there already, as durable as when they were written.
-- parameters: $1 uuid[] ids
-- returns: receipt_id, event_ids, outcome; no row for one that is not there
-- locks: nothing
-- They are there, but perhaps on this server alone: who wrote them may have been ended while it waited for a standby. The
-- message, as in commit_nothing.sql, has this transaction wait for all that was written before it.
WITH durable AS MATERIALIZED (
    SELECT CASE WHEN current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')
                THEN set_config('synchronous_commit', 'on', true) END AS raised,
           pg_logical_emit_message(true, '{schema}', '') AS told
)
SELECT a.receipt_id, a.event_ids, a.outcome
  FROM {schema}.answered($1::uuid[]) a CROSS JOIN durable WHERE durable.told IS NOT NULL
