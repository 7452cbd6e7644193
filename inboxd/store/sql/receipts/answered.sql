-- The answers to receipts that were written before, as durable as when they were written.
-- parameters: $1 uuid[] ids
-- returns: receipt_id, event_ids, outcome; no row for one that does not exist
-- locks: nothing
-- They may exist on this server only: their writer may have been ended while it waited for a standby. The message, as in
-- commit_nothing.sql, makes this transaction wait for everything that was written before it.
WITH durable AS MATERIALIZED (
    SELECT CASE WHEN current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')
                THEN set_config('synchronous_commit', 'on', true) END AS raised,
           pg_logical_emit_message(true, '{schema}', '') AS told
)
SELECT a.receipt_id, a.event_ids, a.outcome
  FROM {schema}.answered($1::uuid[]) a CROSS JOIN durable WHERE durable.told IS NOT NULL
